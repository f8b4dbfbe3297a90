/* The helper thread: prepares memory for the recording, writes keyframes, prints lines, and makes
 * the slow queries to CUDA. */
#ifndef PRELOAD_HELPER_H
#define PRELOAD_HELPER_H

#include <stdatomic.h>
#include <stdint.h>

struct helper {
	_Atomic uint32_t *wakeups; /* futex; another process may also wake the thread */
	void (*once)(void);        /* run on the thread first */
	unsigned (*work)(void); /* run at every wake-up; returns the time in ms to the next run */
	void (*end)(void);      /* run on the thread last */
};

/* Starts the thread. Returns 0, or -1 if no thread can be started. */
int helper_start(const struct helper *b);

/* Wakes the thread; callable anywhere, never waits. */
void helper_wake(void);

int helper_is_running(void);

/* Asks the thread to end and waits up to LIMIT_MS. The thread runs its work once more before its
 * end. Returns 1 if the thread has ended. */
int helper_stop(unsigned limit_ms);

/* For a forked child, in which the thread does not exist. */
void helper_forget(void);

#endif
