/*
 * Whether this process records. Nothing happens before the first GPU allocation: that one opens the
 * trace, starts the helper thread and describes the process. Any failure ends recording, never the
 * job.
 */
#ifndef PRELOAD_RECORDING_H
#define PRELOAD_RECORDING_H

#include <memtrace/trace.h>
#include <stdatomic.h>
#include <stdint.h>

enum recording { RECORDING_IDLE, RECORDING_STARTING, RECORDING_ON, RECORDING_OFF };

/* A page of its own, which the kernel clears in every child that has a copy of this process's
 * memory, however it was made. */
extern struct recording_page {
	_Atomic int state; /* enum recording */
	char rest[4096 - sizeof(int)];
} __attribute__((aligned(4096))) recording_page;
#define recording_state recording_page.state

/* Starts at the first call. Returns 1 when this process records. */
int recording_start(void);

static inline int recording_on(void)
{
	int state = atomic_load_explicit(&recording_state, memory_order_acquire);

	return __builtin_expect(state == RECORDING_ON, 1) ||
	       (state != RECORDING_OFF && recording_start());
}

/* The same, starting nothing. */
static inline int recording_already(void)
{
	return atomic_load_explicit(&recording_state, memory_order_acquire) == RECORDING_ON;
}

/* MEMTRACE_DISABLE, or recording could not start: then nothing is asked of CUDA either, and no
 * argument is looked at. */
int recording_is_allowed(void);

static inline int recording_may_be(void)
{
	int state = atomic_load_explicit(&recording_state, memory_order_acquire);

	return __builtin_expect(state == RECORDING_ON, 1) ||
	       (state != RECORDING_OFF && recording_is_allowed());
}

/* The calling thread's index in the tables. */
uint16_t recording_thread(void);

/* Writes one record, now, by this thread. Returns its sequence number or MT_UNKNOWN. */
uint64_t recording_event(enum mt_event kind, unsigned device, uint64_t address, int64_t bytes,
			 uint32_t stack);

/* An allocation failed for good: keeps its records, and has the helper say so in one line. */
void recording_out_of_memory(uint64_t sequence, uint64_t requested, uint64_t free_bytes);

#endif
