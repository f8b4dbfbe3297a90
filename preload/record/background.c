#define _GNU_SOURCE
#include "record/background.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "record/thread.h"

static struct {
	struct background is;
	_Atomic uint32_t own_wakeups; /* before the first start */
	atomic_uint ending, running;
} background;

static void futex(int op, uint32_t value, const struct timespec *timeout)
{
	_Atomic uint32_t *word =
		background.is.wakeups ? background.is.wakeups : &background.own_wakeups;

	syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

/* The thread is made by a thread of the job's: it must not have its real-time priority, nor stay on
 * its core. */
static void schedule_as_the_process(void)
{
	struct sched_param normal = { 0 };
	cpu_set_t all;

	(void)syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &normal);
	if (syscall(SYS_sched_getaffinity, getpid(), sizeof(all), &all) > 0)
		(void)syscall(SYS_sched_setaffinity, 0, sizeof(all), &all);
}

static void *run(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "memtrace");
	schedule_as_the_process();
	background.is.once();
	while (!atomic_load(&background.ending)) {
		uint32_t seen = atomic_load(background.is.wakeups);
		unsigned ms = background.is.work();
		struct timespec pause = { .tv_sec = ms / 1000,
					  .tv_nsec = (long)(ms % 1000) * 1000000 };

		if (!atomic_load(&background.ending))
			futex(FUTEX_WAIT, seen, &pause);
	}
	background.is.work();
	background.is.end();
	atomic_store(&background.running, 0);
	return NULL;
}

int background_start(const struct background *b)
{
	background.is = *b;
	atomic_store(&background.ending, 0);
	atomic_store(&background.running, 1);
	if (thread_start(run) == 0)
		return 0;
	atomic_store(&background.running, 0);
	return -1;
}

void background_wake(void)
{
	_Atomic uint32_t *word =
		background.is.wakeups ? background.is.wakeups : &background.own_wakeups;

	atomic_fetch_add(word, 1);
	futex(FUTEX_WAKE, 1, NULL);
}

int background_is_running(void)
{
	return (int)atomic_load(&background.running);
}

int background_stop(unsigned limit_ms)
{
	struct timespec tenth = { .tv_nsec = 100000 };

	atomic_store(&background.ending, 1);
	for (unsigned i = 0; i < limit_ms * 10 && atomic_load(&background.running); i++) {
		background_wake();
		syscall(SYS_nanosleep, &tenth, NULL);
	}
	return !atomic_load(&background.running);
}

void background_forget(void)
{
	background.is.wakeups = NULL;
	atomic_store(&background.running, 0);
	atomic_store(&background.ending, 0);
}
