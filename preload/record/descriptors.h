/*
 * Work on files that must not touch the descriptor table of the job: another thread of the job may
 * close any number at any time and open a file of its own that takes it.
 */
#ifndef PRELOAD_RECORD_DESCRIPTORS_H
#define PRELOAD_RECORD_DESCRIPTORS_H

/*
 * Calls RUN(ARGUMENT) on a short-lived thread with a descriptor table of its own, in which only 0,
 * 1 and 2 of the job's are open, and waits until it has returned. The thread uses the thread-local
 * storage of the caller. RUN must leave no lock held. Returns 1, or 0 if there can be no such
 * table: RUN was not called then.
 */
int descriptors_call_apart(void (*run)(void *), void *argument);

/*
 * Gives the calling thread an empty descriptor table of its own. Returns 1, or 0 if the system does
 * not allow it: the table is the job's then.
 */
int descriptors_leave(void);

#endif
