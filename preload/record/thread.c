#define _GNU_SOURCE
#include "record/thread.h"

#include <pthread.h>
#include <signal.h>

#include "symbols/resolve.h"

#define STACK_BYTES (256u << 10)

/*
 * Looked up and not linked with: before glibc 2.34 they are libpthread's, in another version. As
 * the loader would bind us: a sanitizer's pthread_create() in front of the C library's is the one
 * to call.
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
	sigprocmask(SIG_SETMASK, &all, &old); /* the thread begins with its maker's */
	e = real.pthread_create(&thread, &attributes, run, NULL);
	sigprocmask(SIG_SETMASK, &old, NULL);
	real.pthread_attr_destroy(&attributes);
	return e ? -1 : 0;
}
