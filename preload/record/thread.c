#define _GNU_SOURCE
#include "record/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "symbols/resolve.h"

#define STACK_BYTES (256u << 10)

/*
 * These functions are looked up, not linked: before glibc 2.34 libpthread has them, in another
 * version. The lookup is that of the loader: if a sanitizer defines pthread_create() before the C
 * library, that definition must be called.
 */
#define FUNCTIONS(X)                   \
	X(pthread_attr_init)           \
	X(pthread_attr_setdetachstate) \
	X(pthread_attr_setstacksize)   \
	X(pthread_attr_destroy)        \
	X(pthread_create)

int thread_start(void *(*run)(void *))
{
	struct {
#define X(name) __typeof__(name) *name;
		FUNCTIONS(X)
#undef X
	} real;
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, old;
	int e;

#define X(name)                                         \
	*(void **)&real.name = resolve_anywhere(#name); \
	if (!real.name)                                 \
		return -1;
	FUNCTIONS(X)
#undef X
	if (real.pthread_attr_init(&attributes) != 0)
		return -1;
	real.pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	real.pthread_attr_setstacksize(&attributes, STACK_BYTES);
	sigfillset(&all);
	sigdelset(&all, SIGSYS);            /* the job may handle it (thread.h) */
	sigprocmask(SIG_BLOCK, &all, &old); /* the new thread inherits the blocked signals */
	e = real.pthread_create(&thread, &attributes, run, NULL);
	sigprocmask(SIG_SETMASK, &old, NULL);
	real.pthread_attr_destroy(&attributes);
	return e ? -1 : 0;
}

void thread_schedule_as(pid_t process)
{
	struct sched_param normal = { 0 };
	cpu_set_t all;

	(void)syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &normal);
	if (syscall(SYS_sched_getaffinity, process, sizeof(all), &all) > 0)
		(void)syscall(SYS_sched_setaffinity, 0, sizeof(all), &all);
}
