/*
 * Work on files that must not touch the descriptor table of the job: another thread of the job may
 * close any number at any time and open another file that gets the same number.
 */
#ifndef PRELOAD_RECORD_DESCRIPTORS_H
#define PRELOAD_RECORD_DESCRIPTORS_H

#include <sys/syscall.h>

#ifndef SYS_close_range
#define SYS_close_range 436 /* the same number on every architecture */
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2u
#endif

/*
 * Calls RUN(ARGUMENT) on a short-lived thread with its own descriptor table, in which only 0, 1 and
 * 2 of the job are open, and waits until RUN has returned. The thread uses the thread-local storage
 * of the caller. RUN must release every lock that it takes. Returns 1; or 0 if no such table is
 * possible: then RUN was not called.
 */
int descriptors_call_apart(void (*run)(void *), void *argument);

/* In a forked child: a thread of the parent that was inside descriptors_call_apart() is not here.
 */
void descriptors_forget(void);

/*
 * Gives the calling thread an empty descriptor table of its own. Returns 1, or 0 if the system does
 * not allow that: then the thread still uses the table of the job.
 */
int descriptors_leave(void);

#endif
