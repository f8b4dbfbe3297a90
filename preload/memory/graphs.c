#define _GNU_SOURCE
#include "memory/graphs.h"

#include <stdatomic.h>
#include <stdint.h>

#include "memory/counters.h"
#include "record/helper.h"
#include "memory/cuda.h"
#include "base/lock.h"
#include "record/state.h"

#define READ_EVERY_NS 10000000u

static struct {
	atomic_int allocate;
	_Atomic uint64_t read_ns; /* the time when a launch last read a level */
	atomic_uint owed;         /* one bit for each device: launched since then, and not read */
} graphs;

void graphs_forget(void)
{
	atomic_store(&graphs.allocate, 0);
	atomic_store(&graphs.owed, 0);
}

void graphs_allocate(void)
{
	atomic_store(&graphs.allocate, 1);
}

/* DEVICE's level is to be read later: by the next event, or by the helper thread. */
static void owe(int device)
{
	if (atomic_fetch_or(&graphs.owed, 1u << device) == 0)
		helper_wake();
}

int graphs_owe(void)
{
	return atomic_load_explicit(&graphs.owed, memory_order_relaxed) != 0;
}

static void read_level(int device)
{
	uint64_t reserved;

	if (device < 0 || device >= MT_MAX_DEVICES || !recording_on())
		return;
	atomic_fetch_and(&graphs.owed, ~(1u << device));
	if (cuda_graph_memory(device, &reserved) == 0 &&
	    !counters_graphs((unsigned)device, reserved))
		owe(device);
}

void graphs_launched(void)
{
	uint64_t now;
	int device;

	if (__builtin_expect(!atomic_load_explicit(&graphs.allocate, memory_order_relaxed), 1))
		return;
	now = now_ns();
	device = cuda_current_device();
	if (now - atomic_load(&graphs.read_ns) >= READ_EVERY_NS) {
		atomic_store(&graphs.read_ns, now);
		read_level(device);
	} else if (device >= 0 && device < MT_MAX_DEVICES) {
		owe(device);
	}
}

void graphs_uploaded(void)
{
	if (atomic_load_explicit(&graphs.allocate, memory_order_relaxed))
		read_level(cuda_current_device());
}

void graphs_trimmed(int device)
{
	if (atomic_load(&graphs.allocate))
		read_level(device);
}

void graphs_read_owed(void)
{
	unsigned owed = atomic_load_explicit(&graphs.owed, memory_order_relaxed);

	if (__builtin_expect(!owed, 1) || now_ns() - atomic_load(&graphs.read_ns) < READ_EVERY_NS ||
	    !recording_already())
		return;
	atomic_store(&graphs.read_ns, now_ns());
	for (int device = 0; device < MT_MAX_DEVICES; device++)
		if (owed >> device & 1)
			read_level(device);
}
