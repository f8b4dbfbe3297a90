#define _GNU_SOURCE
#include "background.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
	_Atomic uint32_t wakeups; /* the futex; bit 0 of `state` tells the thread to end */
	atomic_uint ending, running;
	void (*once)(void);
	void (*work)(void);
} b;

static void futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

static void *run(void *unused)
{
	struct timespec pause = { .tv_nsec = 60000000 }; /* soon once, then every ten seconds */
	uint32_t seen;

	(void)unused;
	prctl(PR_SET_NAME, "memtrace");
	b.once();
	do {
		seen = atomic_load(&b.wakeups);
		b.work();
		if (!atomic_load(&b.ending))
			futex(&b.wakeups, FUTEX_WAIT, seen, &pause);
		pause = (struct timespec){ .tv_sec = 10 };
	} while (!atomic_load(&b.ending));
	b.work();
	atomic_store(&b.running, 0);
	return NULL;
}

int background_start(void (*once)(void), void (*work)(void))
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int e;

	b.once = once;
	b.work = work;
	atomic_store(&b.ending, 0);
	atomic_store(&b.running, 1);
	sigfillset(&all);
	if (pthread_attr_init(&attr) != 0)
		return -1;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256u << 10);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	e = pthread_create(&thread, &attr, run, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (e)
		atomic_store(&b.running, 0);
	return e ? -1 : 0;
}

void background_wake(void)
{
	atomic_fetch_add(&b.wakeups, 1);
	futex(&b.wakeups, FUTEX_WAKE, 1, NULL);
}

int background_stop(unsigned limit_ms)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	atomic_store(&b.ending, 1);
	for (unsigned i = 0; i < limit_ms && atomic_load(&b.running); i++) {
		background_wake();
		nanosleep(&ms, NULL);
	}
	return !atomic_load(&b.running);
}

void background_forget(void)
{
	atomic_store(&b.running, 0);
	atomic_store(&b.ending, 0);
}
