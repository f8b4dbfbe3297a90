#define _GNU_SOURCE
#include "device/timeline.h"

#include "device/clock.h"
#include "device/settings.h"

#include <pthread.h>
#include <stdlib.h>

enum { BATCH = 64 }; /* pieces of work that a full queue completes */
/* ns. From a launch to the next one: NVIDIA, "Getting started with CUDA graphs" (3.8 us). Between
 * two kernels without content in a stream: Zhang et al., "A study of single and multi-device
 * synchronization methods in Nvidia GPUs", 2020 (1081 ns on V100). */
enum { LAUNCH = 3800, EMPTY_KERNEL = 1081 };

/* The work from number `at` on waits for `until` of another timeline. */
struct dependency {
	uint64_t at, until;
	struct timeline *on;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct timeline *all;
static _Thread_local uint64_t own_work; /* queued by this thread */

static void finish(struct timeline *t, uint64_t until)
{
	if (atomic_load(&t->done) >= until)
		return;
	atomic_store(&t->done, until);
	while (t->count && t->waits[t->first % t->capacity].at <= until) {
		struct dependency d = t->waits[t->first++ % t->capacity];
		t->count--;
		finish(d.on, d.until);
	}
}

static void make_known(struct timeline *t)
{
	pthread_mutex_lock(&lock);
	if (!t->known) {
		t->known = true;
		t->next = all;
		all = t;
	}
	pthread_mutex_unlock(&lock);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t queue_timed(struct timeline *t, uint64_t ns)
{
	clock_call();
	clock_spend(LAUNCH);
	pthread_mutex_lock(&lock);
	if (!t->ends)
		t->ends = calloc(TIMELINE_QUEUE, sizeof *t->ends);
	uint64_t *end = t->ends ? &t->ends[t->queued++ % TIMELINE_QUEUE] : NULL;
	if (end) /* the launch waits until the work that had this place is done */
		clock_reach(*end);
	t->done = later(t->done, clock_host()) + EMPTY_KERNEL + ns;
	if (end)
		*end = t->done;
	uint64_t done = t->done;
	pthread_mutex_unlock(&lock);
	return done;
}

uint64_t timeline_queue(struct timeline *t, uint64_t ns)
{
	if (settings.streams == STREAMS_EARLY)
		return 0;
	if (!t->known)
		make_known(t);
	own_work++;
	if (settings.streams == STREAMS_TIMED)
		return queue_timed(t, ns);
	uint64_t number = atomic_fetch_add(&t->queued, 1) + 1;
	if (number - atomic_load_explicit(&t->done, memory_order_relaxed) > TIMELINE_QUEUE + BATCH)
		timeline_finish(t, number - TIMELINE_QUEUE);
	return number;
}

uint64_t timeline_mark(struct timeline *t)
{
	return settings.streams == STREAMS_TIMED ? timeline_last(t) : timeline_queue(t, 0);
}

uint64_t timeline_last(struct timeline *t)
{
	return atomic_load(settings.streams == STREAMS_TIMED ? &t->done : &t->queued);
}

static bool room(struct timeline *t)
{
	if (t->count < t->capacity)
		return true;
	size_t more = t->capacity ? t->capacity * 2 : 16;
	struct dependency *waits = malloc(more * sizeof *waits);
	if (!waits)
		return false;
	for (size_t i = 0; t->capacity && i < t->count; i++)
		waits[i] = t->waits[(t->first + i) % t->capacity];
	free(t->waits);
	t->waits = waits;
	t->capacity = more;
	t->first = 0;
	return true;
}

void timeline_wait(struct timeline *t, struct timeline *on, uint64_t until)
{
	if (settings.streams == STREAMS_TIMED) {
		pthread_mutex_lock(&lock);
		t->done = later(t->done, until);
		pthread_mutex_unlock(&lock);
		return;
	}
	if (t == on || atomic_load(&on->done) >= until)
		return;
	uint64_t number = timeline_queue(t, 0);
	pthread_mutex_lock(&lock);
	if (room(t))
		t->waits[(t->first + t->count++) % t->capacity] =
			(struct dependency){ number, until, on };
	pthread_mutex_unlock(&lock);
}

void timeline_finish(struct timeline *t, uint64_t until)
{
	if (settings.streams == STREAMS_TIMED) {
		clock_call();
		clock_reach(until);
		return;
	}
	pthread_mutex_lock(&lock);
	finish(t, until);
	pthread_mutex_unlock(&lock);
}

void timeline_finish_all(int device)
{
	bool timed = settings.streams == STREAMS_TIMED;
	if (timed)
		clock_call();
	pthread_mutex_lock(&lock);
	for (struct timeline *t = all; t; t = t->next) {
		if (device != ALL_DEVICES && t->device != device)
			continue;
		if (timed)
			clock_reach(t->done);
		else
			finish(t, atomic_load(&t->queued));
	}
	pthread_mutex_unlock(&lock);
}

static bool tired(struct poll *poll)
{
	unsigned long self = (unsigned long)pthread_self();
	if (!own_work)
		return ++poll->watched >= TIMELINE_POLLS;
	if (poll->thread == self && poll->work != own_work)
		poll->turns = 0;
	else
		poll->turns++;
	poll->thread = self;
	poll->work = own_work;
	return poll->turns >= TIMELINE_POLLS;
}

static bool asked_timed(uint64_t until, struct poll *poll)
{
	if (!own_work)
		return clock_watch() >= until;
	clock_call();
	if (clock_host() >= until)
		return true;
	pthread_mutex_lock(&lock);
	bool enough = tired(poll);
	pthread_mutex_unlock(&lock);
	if (enough)
		clock_reach(until);
	return enough;
}

bool timeline_asked(struct timeline *t, uint64_t until, struct poll *poll)
{
	if (settings.streams == STREAMS_TIMED)
		return asked_timed(until, poll);
	if (atomic_load(&t->done) >= until)
		return true;
	pthread_mutex_lock(&lock);
	bool enough = tired(poll);
	if (enough && own_work)
		finish(t, until);
	pthread_mutex_unlock(&lock);
	return enough;
}
