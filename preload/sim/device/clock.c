#define _GNU_SOURCE
#include "device/clock.h"

#include "device/common.h"
#include "device/settings.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND 1000000ll
#define SECOND (1000 * MILLISECOND)
#define PAUSE (100 * MILLISECOND) /* of the job, from which on it counts, in whole ones */
#define SLICE (5 * MILLISECOND)   /* a sleeping watcher looks at the clock */
/* The job waits this long at most for its watchers to poll: one of them may need a lock that the
 * waiting thread holds. */
#define LONGEST_WAIT (20 * MILLISECOND)
/* Two ends of one sleep may differ by this: a sleep that goes on gets an end that the C++ library
 * computes from another clock. */
#define SAME_END MILLISECOND
/* Sleeps are whole numbers of these, and polls at whole numbers of sleeps. */
#define WHOLE (10 * MILLISECOND)

struct watcher {
	pthread_cond_t *condition;
	uint64_t until;
	struct watcher *next;
};

static _Atomic uint64_t host;
static _Atomic int64_t last_call; /* real time; 0: none yet */
static _Atomic uint64_t next_poll = UINT64_MAX;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct watcher *watchers; /* asleep */

static _Thread_local bool watches;
static _Thread_local uint64_t seen; /* the time of this watcher's poll */
static _Thread_local int64_t slept_until, ahead;
static _Thread_local unsigned readings; /* bits: the clocks whose next reading is `ahead` */

static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_time)(clockid_t, struct timespec *);

/* By version: a look-up without one finds the oldest pthread_cond_timedwait(), of another type of
 * condition variable. The second version is that of newer processors' C library. */
static void *c_library(const char *name, const char *version)
{
	void *found = dlvsym(RTLD_NEXT, name, version);
	return found ? found : dlvsym(RTLD_NEXT, name, "GLIBC_2.17");
}

__attribute__((constructor)) static void find_real(void)
{
	*(void **)&real_time = c_library("clock_gettime", "GLIBC_2.2.5");
	*(void **)&real_wait = c_library("pthread_cond_timedwait", "GLIBC_2.3.2");
}

static int64_t of_timespec(const struct timespec *t)
{
	return (int64_t)t->tv_sec * SECOND + t->tv_nsec;
}

static struct timespec timespec_of(int64_t ns)
{
	return (struct timespec){ ns / SECOND, ns % SECOND };
}

static int64_t real_now(clockid_t which)
{
	struct timespec t = { 0 };
	if (!real_time)
		find_real();
	real_time(which, &t);
	return of_timespec(&t);
}

void clock_spend(uint64_t ns)
{
	atomic_fetch_add(&host, ns);
}

void clock_reach(uint64_t time)
{
	uint64_t now = atomic_load(&host);
	while (now < time && !atomic_compare_exchange_weak(&host, &now, time))
		;
}

uint64_t clock_host(void)
{
	return atomic_load(&host);
}

void clock_call(void)
{
	int64_t now = real_now(CLOCK_MONOTONIC), before = atomic_exchange(&last_call, now);
	if (before && now - before > PAUSE) /* rounded up: watchers have seen it pass */
		clock_spend((uint64_t)((now - before + PAUSE - 1) / PAUSE * PAUSE));
}

void clock_skip(void)
{
	atomic_store(&last_call, real_now(CLOCK_MONOTONIC));
}

static uint64_t watched_now(void)
{
	int64_t idle = real_now(CLOCK_MONOTONIC) - atomic_load(&last_call);
	return atomic_load(&host) + (idle > PAUSE ? (uint64_t)idle : 0);
}

uint64_t clock_watch(void)
{
	watches = true;
	return seen ? seen : watched_now();
}

/* ---- sleeps of threads that watch */

static void publish_next(void)
{
	uint64_t next = UINT64_MAX;
	for (struct watcher *w = watchers; w; w = w->next)
		next = w->until < next ? w->until : next;
	atomic_store(&next_poll, next);
}

static void leave(struct watcher *watcher)
{
	pthread_mutex_lock(&lock);
	for (struct watcher **at = &watchers; *at; at = &(*at)->next)
		if (*at == watcher) {
			*at = watcher->next;
			break;
		}
	publish_next();
	pthread_mutex_unlock(&lock);
}

/* The number of sleeps begun and of those that ended by this clock: all are asleep again when the
 * watchers that ended one have begun another. */
static _Atomic unsigned polling;
static _Thread_local bool is_polling;

static void poll_ends(void)
{
	if (is_polling)
		atomic_fetch_sub(&polling, 1);
	is_polling = false;
}

void clock_let_watch(void)
{
	if (atomic_load_explicit(&next_poll, memory_order_relaxed) > clock_host())
		return;
	int64_t began = real_now(CLOCK_MONOTONIC);
	pthread_mutex_lock(&lock);
	for (struct watcher *w = watchers; w; w = w->next)
		if (w->until <= clock_host())
			pthread_cond_broadcast(w->condition);
	pthread_mutex_unlock(&lock);
	while ((atomic_load(&next_poll) <= clock_host() || atomic_load(&polling)) &&
	       real_now(CLOCK_MONOTONIC) - began < LONGEST_WAIT)
		usleep(50);
	/* The time of this wait is not counted as time that the job took. */
	atomic_fetch_add(&last_call, real_now(CLOCK_MONOTONIC) - began);
}

static bool goes_on(int64_t end)
{
	return end - slept_until < SAME_END && slept_until - end < SAME_END;
}

/* A sleep until `end` of the real clock, as long by the host's clock: polls are as far apart there
 * as the watcher wants them, however late it wakes. Both the pauses that the clock counts and the
 * times of polls are round, so that polls fall between the same calls in each run. */
static int watch_sleep(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t end)
{
	static _Thread_local uint64_t until, length;
	if (!goes_on(end)) {
		uint64_t real = (uint64_t)(end - real_now(CLOCK_REALTIME));
		length = (real + WHOLE / 2) / WHOLE * WHOLE;
		if (!length)
			length = WHOLE;
		until = (seen ? seen : watched_now()) / length * length + length;
		slept_until = end;
	}
	struct watcher self = { condition, until, NULL };
	pthread_mutex_lock(&lock);
	self.next = watchers;
	watchers = &self;
	publish_next();
	pthread_mutex_unlock(&lock);
	poll_ends();
	int result = ETIMEDOUT;
	while (result == ETIMEDOUT && watched_now() < until) {
		struct timespec slice = timespec_of(real_now(CLOCK_REALTIME) + SLICE);
		result = real_wait(condition, mutex, &slice);
	}
	uint64_t passed = watched_now();
	bool over = passed >= until;
	if (over) {
		atomic_fetch_add(&polling, 1);
		is_polling = true;
		seen = until + (length ? (passed - until) / length * length : 0);
		ahead = end - real_now(CLOCK_REALTIME);
		readings = ahead > 0 ? 1u << CLOCK_REALTIME | 1u << CLOCK_MONOTONIC : 0;
		slept_until = 0;
	}
	leave(&self);
	return over ? ETIMEDOUT : result;
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
				  const struct timespec *end)
{
	if (!real_wait)
		find_real();
	readings = 0;
	if (!watches || settings.streams != STREAMS_TIMED)
		return real_wait(condition, mutex, end);
	int64_t length = of_timespec(end) - real_now(CLOCK_REALTIME);
	if ((length <= 0 || length > SECOND) && !goes_on(of_timespec(end))) {
		poll_ends();
		seen = 0;
		return real_wait(condition, mutex, end);
	}
	return watch_sleep(condition, mutex, of_timespec(end));
}

/* The caller of a sleep that ended early by the real clock compares the clock with the end that it
 * asked for, the C++ library by two clocks: one reading of each is as late as it expects. */
EXPORT int clock_gettime(clockid_t which, struct timespec *time)
{
	if (!real_time)
		find_real();
	int error = real_time(which, time);
	if (readings && !error && which >= 0 && which < 32 && readings >> which & 1) {
		readings &= ~(1u << which);
		*time = timespec_of(of_timespec(time) + ahead);
	}
	return error;
}
