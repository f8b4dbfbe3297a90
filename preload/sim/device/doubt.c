#define _GNU_SOURCE
#include "device/doubt.h"

#include "device/common.h"
#include "device/not_simulated.h"

#include <pthread.h>
#include <string.h>

/* The ranges do not overlap, and are in no order: there are few. If there is no room, the oldest
 * is forgotten. */
enum { RANGES = 1024, CAUSES = 64 };

struct doubt {
	uint64_t start, end;
	unsigned unit;
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
		put((struct doubt){ r.start, start, r.unit, r.cause });
		put((struct doubt){ end, r.end, r.unit, r.cause });
	}
}

void doubt_begin(const void *at, uint64_t bytes, unsigned unit, const char *cause)
{
	uint64_t start = (uint64_t)at;
	pthread_mutex_lock(&lock);
	take(start, start + bytes);
	put((struct doubt){ start, start + bytes, unit, cause });
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

static struct doubt find(const void *at, uint64_t bytes)
{
	struct doubt found = { .unit = 1 };
	uint64_t start = (uint64_t)at;
	if (!__atomic_load_n(&count, __ATOMIC_RELAXED))
		return found;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < count && !found.cause; i++)
		if (ranges[i].start < start + bytes && start < ranges[i].end)
			found = ranges[i];
	pthread_mutex_unlock(&lock);
	return found;
}

const char *doubt_about(const void *at, uint64_t bytes)
{
	return find(at, bytes).cause;
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
	struct doubt d = find(at, bytes);
	if (d.cause && bytes % d.unit == 0 && first_time(d.cause))
		sim_say_once("the host reads what is not simulated, sizes that follow may be "
			     "wrong: %.400s",
			     d.cause);
}

void doubt_copy(const void *to, const void *from, uint64_t bytes)
{
	struct doubt d = find(from, bytes);
	if (d.cause)
		doubt_begin(to, bytes, d.unit, d.cause);
	else
		doubt_end(to, bytes);
}
