#define _GNU_SOURCE
#include "graphs.h"

#include <stdatomic.h>
#include <stdint.h>

#include "account.h"
#include "cuda.h"
#include "lock.h"
#include "recording.h"

#define LOOK_EVERY_NS 10000000u

static struct {
	atomic_int allocate;
	_Atomic uint64_t looked_ns;
} g;

void graphs_forget(void)
{
	atomic_store(&g.allocate, 0);
}

void graphs_allocate(void)
{
	atomic_store(&g.allocate, 1);
}

static void look(int device)
{
	uint64_t reserved;

	if (device >= 0 && device < MT_MAX_DEVICES && recording_on() &&
	    cuda_graph_memory(device, &reserved) == 0)
		account_graphs((unsigned)device, reserved);
}

void graphs_launched(void)
{
	uint64_t now;

	if (__builtin_expect(!atomic_load_explicit(&g.allocate, memory_order_relaxed), 1))
		return;
	now = now_ns();
	if (now - atomic_load(&g.looked_ns) < LOOK_EVERY_NS)
		return;
	atomic_store(&g.looked_ns, now);
	look(cuda_current_device());
}

void graphs_trimmed(int device)
{
	if (atomic_load(&g.allocate))
		look(device);
}
