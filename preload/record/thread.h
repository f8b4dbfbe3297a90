/* Starts the helper thread. */
#ifndef PRELOAD_THREAD_H
#define PRELOAD_THREAD_H

/* Starts a detached thread with a small stack and all signals blocked. Returns 0, or -1 if that is
 * not possible: for example, the process has no libpthread and the C library does not contain it.
 */
int thread_start(void *(*run)(void *));

#endif
