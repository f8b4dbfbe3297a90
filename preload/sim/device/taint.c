#define _GNU_SOURCE
#include "device/taint.h"

#include "device/common.h"
#include "device/not_simulated.h"

#include <pthread.h>
#include <string.h>

/* The ranges do not overlap, and are in no order: there are few. If there is no room, the oldest
 * is forgotten. */
enum { RANGES = 1024, CAUSES = 64 };

struct taint {
	uint64_t start, end;
	unsigned unit;
	const char *cause;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct taint ranges[RANGES];
static unsigned count, next; /* `count` is read without the lock */
static const char *said[CAUSES];

static void put(struct taint r)
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
		struct taint r = ranges[i];
		if (r.end <= start || end <= r.start) {
			i++;
			continue;
		}
		ranges[i] = ranges[count - 1];
		__atomic_fetch_sub(&count, 1, __ATOMIC_RELAXED);
		put((struct taint){ r.start, start, r.unit, r.cause });
		put((struct taint){ end, r.end, r.unit, r.cause });
	}
}

void taint_set(const void *at, uint64_t bytes, unsigned unit, const char *cause)
{
	uint64_t start = (uint64_t)at;
	pthread_mutex_lock(&lock);
	take(start, start + bytes);
	put((struct taint){ start, start + bytes, unit, cause });
	pthread_mutex_unlock(&lock);
}

void taint_clear(const void *at, uint64_t bytes)
{
	if (!__atomic_load_n(&count, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&lock);
	take((uint64_t)at, (uint64_t)at + bytes);
	pthread_mutex_unlock(&lock);
}

static struct taint find(const void *at, uint64_t bytes)
{
	struct taint found = { .unit = 1 };
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

const char *taint_of(const void *at, uint64_t bytes)
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

void taint_read(const void *at, uint64_t bytes)
{
	struct taint t = find(at, bytes);
	if (t.cause && bytes % t.unit == 0 && first_time(t.cause))
		sim_say_once("the host reads what is not simulated, sizes that follow may be "
			     "wrong: %.400s",
			     t.cause);
}

void taint_copy(const void *to, const void *from, uint64_t bytes)
{
	struct taint t = find(from, bytes);
	if (t.cause)
		taint_set(to, bytes, t.unit, t.cause);
	else
		taint_clear(to, bytes);
}
