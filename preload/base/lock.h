/*
 * A lock that cannot block the host for ever: the wait has a limit, and a thread that does not get
 * the lock records less. A holder does not call the host, CUDA or Python.
 */
#ifndef PRELOAD_LOCK_H
#define PRELOAD_LOCK_H

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct lock {
	atomic_int held;
};

#define LOCK_MS(n) ((uint64_t)(n)*1000000u)
#define LOCK_WAIT LOCK_MS(100) /* enough time for a holder that lost its processor to run again */

/* The C library's clock_gettime() once recording begins. A library of the job may define the
 * function again, and its clock may stand still (libfaketime): no wait would end. */
extern int (*real_clock)(clockid_t, struct timespec *);

static inline uint64_t now_ns(void)
{
	struct timespec t;

	real_clock(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Lets the holder run; sched_yield() may fail to do so. This is no cancellation point. */
__attribute__((noinline, cold, unused)) static void lock_pause(void)
{
	struct timespec t = { .tv_nsec = 50000 };
	int e = errno;

	syscall(SYS_nanosleep, &t, NULL);
	errno = e;
}

/* Returns 1 when the lock is taken, 0 when `limit_ns` has passed. With a limit of 0 the thread
 * keeps its processor: on a busy machine, to yield is to wait. */
static inline int lock_acquire(struct lock *l, uint64_t limit_ns)
{
	uint64_t start = 0;

	for (unsigned spins = 0; atomic_exchange_explicit(&l->held, 1, memory_order_acquire);
	     spins++) {
		if (spins < 100)
			continue;
		if (!limit_ns)
			return 0;
		if (spins < 120)
			sched_yield();
		else
			lock_pause();
		if (!start)
			start = now_ns();
		else if (now_ns() - start > limit_ns)
			return 0;
	}
	return 1;
}

static inline void lock_release(struct lock *l)
{
	atomic_store_explicit(&l->held, 0, memory_order_release);
}

#endif
