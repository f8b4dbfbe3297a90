/*
 * Work on files that must not touch the descriptor table of the job: another thread of the job may
 * close any number at any time and open a file of its own that takes it.
 */
#ifndef PRELOAD_RECORD_DESCRIPTORS_H
#define PRELOAD_RECORD_DESCRIPTORS_H

/*
 * Calls RUN(ARGUMENT) in a child process that shares the memory of this one and has a copy of its
 * descriptor table, and waits for the child's end. RUN opens and closes what it likes; it must
 * leave no lock held. Returns 1, or 0 if no child can be made: RUN was not called then.
 */
int descriptors_call_apart(int (*run)(void *), void *argument);

/*
 * Gives the calling thread an empty descriptor table of its own. Returns 1, or 0 if the system does
 * not allow it: the table is the job's then.
 */
int descriptors_leave(void);

#endif
