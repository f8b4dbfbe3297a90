/* The recorder's own threads, in the job's process and in the writer's. */
#ifndef PRELOAD_THREAD_H
#define PRELOAD_THREAD_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The signals that the recorder blocks, as the kernel's set: all but SIGSYS. A filter of system
 * calls may send SIGSYS for a call (SECCOMP_RET_TRAP), and the job's handler answers in the call's
 * place. If the signal is blocked, the kernel ends the process instead.
 */
#define THREAD_BLOCKS (~(1ull << (SIGSYS - 1)))

/* Starts a detached thread with a small stack and THREAD_BLOCKS. Returns 0, or -1 if that is not
 * possible: for example, the process has no libpthread and the C library does not contain it.
 */
int thread_start(void *(*run)(void *));

/* Gives the calling thread the processors of PROCESS and no real-time priority. It inherited both
 * from a thread of the job, which must not find it on a processor of its own. */
void thread_schedule_as(pid_t process);

#endif
