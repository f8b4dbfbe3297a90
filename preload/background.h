/* The helper thread: prepares what recording will need, writes keyframes, prints lines, asks slow
 * questions. */
#ifndef PRELOAD_BACKGROUND_H
#define PRELOAD_BACKGROUND_H

/* Starts the thread with all signals blocked. ONCE is run on it first, then WORK at every wake-up
 * and every ten seconds. */
int background_start(void (*once)(void), void (*work)(void));

/* Wakes the thread; callable anywhere, never waits. */
void background_wake(void);

/* Asks the thread to end and waits up to LIMIT_MS for it. Returns 1 when there is no such thread
 * any more. */
int background_stop(unsigned limit_ms);

/* In a forked child, where the thread does not exist. */
void background_forget(void);

#endif
