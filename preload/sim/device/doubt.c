#define _GNU_SOURCE
#include "device/doubt.h"

#include "device/settings.h"

#include <pthread.h>
#include <string.h>

/* The ranges do not overlap, and are in no order: there are few. If there is no room, the oldest
 * is forgotten. */
enum { RANGES = 1024, CAUSES = 64 };

struct doubt {
	uint64_t start, end;
	const char *cause;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct doubt ranges[RANGES];
static unsigned count, next; /* `count` is read without the lock */
static const char *said[CAUSES];

static void put(struct doubt r)
{
	if (r.start >= r.end)
		return;
	if (count < RANGES)
		ranges[__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED)] = r;
	else
		ranges[next++ % RANGES] = r;
}

/* The lock is held. */
static void take(uint64_t start, uint64_t end)
{
	for (unsigned i = 0; i < count;) {
		struct doubt r = ranges[i];
		if (r.end <= start || end <= r.start) {
			i++;
			continue;
		}
		ranges[i] = ranges[count - 1];
		__atomic_fetch_sub(&count, 1, __ATOMIC_RELAXED);
		put((struct doubt){ r.start, start, r.cause });
		put((struct doubt){ end, r.end, r.cause });
	}
}

void doubt_begin(const void *at, uint64_t bytes, const char *cause)
{
	uint64_t start = (uint64_t)at;
	pthread_mutex_lock(&lock);
	take(start, start + bytes);
	put((struct doubt){ start, start + bytes, cause });
	pthread_mutex_unlock(&lock);
}

void doubt_end(const void *at, uint64_t bytes)
{
	if (!__atomic_load_n(&count, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&lock);
	take((uint64_t)at, (uint64_t)at + bytes);
	pthread_mutex_unlock(&lock);
}

const char *doubt_about(const void *at, uint64_t bytes)
{
	const char *cause = NULL;
	uint64_t start = (uint64_t)at;
	if (!__atomic_load_n(&count, __ATOMIC_RELAXED))
		return NULL;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < count && !cause; i++)
		if (ranges[i].start < start + bytes && start < ranges[i].end)
			cause = ranges[i].cause;
	pthread_mutex_unlock(&lock);
	return cause;
}

/* Once for each cause. */
static bool first_time(const char *cause)
{
	bool first = false;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < CAUSES; i++) {
		if (said[i] && strcmp(said[i], cause) != 0)
			continue;
		first = !said[i];
		said[i] = cause;
		break;
	}
	pthread_mutex_unlock(&lock);
	return first;
}

void doubt_read(const void *at, uint64_t bytes)
{
	const char *cause = doubt_about(at, bytes);
	if (cause && first_time(cause))
		sim_say("the host reads what depends on a result that is not simulated: sizes that "
			"follow may be wrong. %.400s",
			cause);
}

void doubt_copy(const void *to, const void *from, uint64_t bytes)
{
	const char *cause = doubt_about(from, bytes);
	if (cause)
		doubt_begin(to, bytes, cause);
	else
		doubt_end(to, bytes);
}
