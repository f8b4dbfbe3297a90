/*
 * Whether this process records. Recording begins at the first GPU allocation: that call opens the
 * trace, starts the helper thread and describes the process (preload/recording.c). Any failure ends
 * recording and leaves the job alone.
 */
#ifndef PRELOAD_STATE_H
#define PRELOAD_STATE_H

#include <stdatomic.h>

enum recording { RECORDING_IDLE, RECORDING_STARTING, RECORDING_ON, RECORDING_OFF };

/* The state has its own page. The kernel clears the page (to RECORDING_IDLE) in every child that
 * has a copy of this process's memory, for any call that makes a child. */
extern struct recording_page {
	_Atomic int state; /* enum recording */
	char rest[4096 - sizeof(int)];
} __attribute__((aligned(4096))) recording_page;
#define recording_state recording_page.state

/*
 * The two questions that the start of a recording answers. state.c has weak definitions for a
 * program without such a start: nothing is ever recorded. The linker prefers the definitions in
 * preload/recording.c. A function pointer set by recording.c would be too late: constructors of
 * other libraries allocate GPU memory before the one of memtrace runs.
 */

/* Starts recording at the first call. Returns 1 if this process records. */
int recording_start(void);

/* Returns 0 if MEMTRACE_DISABLE is set or recording could not start. Then hooks read no argument
 * and make no call of CUDA of their own. */
int recording_is_allowed(void);

/* Returns 1 if this process records; starts recording if it is idle. */
static inline int recording_on(void)
{
	int state = atomic_load_explicit(&recording_state, memory_order_acquire);

	return __builtin_expect(state == RECORDING_ON, 1) ||
	       (state != RECORDING_OFF && recording_start());
}

/* Returns 1 if this process records already; starts nothing. */
static inline int recording_already(void)
{
	return atomic_load_explicit(&recording_state, memory_order_acquire) == RECORDING_ON;
}

/* Returns 1 if this process records or may start to. */
static inline int recording_may_be(void)
{
	int state = atomic_load_explicit(&recording_state, memory_order_acquire);

	return __builtin_expect(state == RECORDING_ON, 1) ||
	       (state != RECORDING_OFF && recording_is_allowed());
}

#endif
