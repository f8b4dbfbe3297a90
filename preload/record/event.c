#define _GNU_SOURCE
#include "record/event.h"

#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/helper.h"
#include "record/clock.h"
#include "record/recorder.h"
#include "record/tables.h"

static uint32_t generation; /* number of the recording */

static __thread struct {
	uint32_t generation; /* number of the recording that `index` belongs to; a forked child
				starts another */
	uint16_t index;
} thread __attribute__((tls_model("initial-exec")));

static struct {
	atomic_int pending;
	uint64_t requested, free_bytes;
} oom;

void event_begin(void)
{
	__atomic_add_fetch(&generation, 1, __ATOMIC_RELEASE);
}

uint32_t event_generation(void)
{
	return __atomic_load_n(&generation, __ATOMIC_RELAXED);
}

uint16_t event_thread(void)
{
	char name[17] = "";

	if (__builtin_expect(thread.generation == generation, 1))
		return thread.index;
	prctl(PR_GET_NAME, name);
	thread.index = tables_thread((uint32_t)syscall(SYS_gettid), name);
	thread.generation = generation;
	return thread.index;
}

uint64_t event_write(enum mt_event kind, unsigned device, uint64_t address, int64_t bytes,
		     uint32_t stack)
{
	/* The writer turns clock_now() into nanoseconds. */
	return recorder_write(clock_now(), address, bytes,
			      recorder_last(stack, event_thread(), kind, device));
}

void event_out_of_memory(uint64_t sequence, uint64_t requested, uint64_t free_bytes)
{
	if (sequence != MT_UNKNOWN)
		recorder_protect(sequence);
	oom.requested = requested;
	oom.free_bytes = free_bytes;
	atomic_store(&oom.pending, 1);
	helper_wake();
}

int event_take_out_of_memory(uint64_t *requested, uint64_t *free_bytes)
{
	if (!atomic_exchange(&oom.pending, 0))
		return 0;
	*requested = oom.requested;
	*free_bytes = oom.free_bytes;
	return 1;
}

void event_forget(void)
{
	atomic_store(&oom.pending, 0);
}
