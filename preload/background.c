#define _GNU_SOURCE
#include "background.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "thread.h"

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
	b.once = once;
	b.work = work;
	atomic_store(&b.ending, 0);
	atomic_store(&b.running, 1);
	if (thread_start(run) == 0)
		return 0;
	atomic_store(&b.running, 0);
	return -1;
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
