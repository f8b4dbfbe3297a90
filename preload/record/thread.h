/* The helper's thread. */
#ifndef PRELOAD_THREAD_H
#define PRELOAD_THREAD_H

/* Starts a detached thread of its own small stack, all signals blocked. 0, or -1 where none can be
 * had: the process may have no libpthread, where that is not part of the C library. */
int thread_start(void *(*run)(void *));

#endif
