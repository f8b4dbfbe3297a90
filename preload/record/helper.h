/* The helper thread: prepares what recording will need, writes keyframes, prints lines, asks slow
 * questions. */
#ifndef PRELOAD_HELPER_H
#define PRELOAD_HELPER_H

#include <stdatomic.h>
#include <stdint.h>

struct helper {
	_Atomic uint32_t *wakeups; /* futex; also another process may wake the thread by it */
	void (*once)(void);        /* run on the thread first */
	unsigned (*work)(void);    /* run at every wake-up; returns after how many ms it wants to be
				      run again */
	void (*end)(void);         /* run on the thread last */
};

/* Starts the thread with all signals blocked. 0, or -1: there is no such thread. */
int helper_start(const struct helper *b);

/* Wakes the thread; callable anywhere, never waits. */
void helper_wake(void);

int helper_is_running(void);

/* Asks the thread to end, which it does after another run of its work, and waits up to LIMIT_MS for
 * it. Returns 1 when there is no such thread any more. */
int helper_stop(unsigned limit_ms);

/* In a forked child, where the thread does not exist. */
void helper_forget(void);

#endif
