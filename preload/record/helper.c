#define _GNU_SOURCE
#include "record/helper.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "record/thread.h"

static struct {
	struct helper is;
	_Atomic uint32_t own_wakeups; /* before the first start */
	atomic_uint ending, running;
} helper;

static void futex(int op, uint32_t value, const struct timespec *timeout)
{
	_Atomic uint32_t *word = helper.is.wakeups ? helper.is.wakeups : &helper.own_wakeups;

	syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

static void *run(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "memtrace");
	thread_schedule_as(getpid());
	helper.is.once();
	while (!atomic_load(&helper.ending)) {
		uint32_t seen = atomic_load(helper.is.wakeups);
		unsigned ms = helper.is.work();
		struct timespec pause = { .tv_sec = ms / 1000,
					  .tv_nsec = (long)(ms % 1000) * 1000000 };

		if (!atomic_load(&helper.ending))
			futex(FUTEX_WAIT, seen, &pause);
	}
	helper.is.work();
	helper.is.end();
	atomic_store(&helper.running, 0);
	return NULL;
}

int helper_start(const struct helper *b)
{
	helper.is = *b;
	atomic_store(&helper.ending, 0);
	atomic_store(&helper.running, 1);
	if (thread_start(run) == 0)
		return 0;
	atomic_store(&helper.running, 0);
	return -1;
}

void helper_wake(void)
{
	_Atomic uint32_t *word = helper.is.wakeups ? helper.is.wakeups : &helper.own_wakeups;

	atomic_fetch_add(word, 1);
	futex(FUTEX_WAKE, 1, NULL);
}

int helper_is_running(void)
{
	return (int)atomic_load(&helper.running);
}

int helper_stop(unsigned limit_ms)
{
	struct timespec tenth = { .tv_nsec = 100000 };

	atomic_store(&helper.ending, 1);
	for (unsigned i = 0; i < limit_ms * 10 && atomic_load(&helper.running); i++) {
		helper_wake();
		syscall(SYS_nanosleep, &tenth, NULL);
	}
	return !atomic_load(&helper.running);
}

void helper_forget(void)
{
	helper.is.wakeups = NULL;
	atomic_store(&helper.running, 0);
	atomic_store(&helper.ending, 0);
}
