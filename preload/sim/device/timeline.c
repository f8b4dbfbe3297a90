#define _GNU_SOURCE
#include "device/timeline.h"

#include "device/settings.h"

#include <pthread.h>
#include <stdlib.h>

enum { BATCH = 64 }; /* pieces of work that a full queue completes */

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

uint64_t timeline_queue(struct timeline *t)
{
	if (settings.streams == STREAMS_EARLY)
		return 0;
	if (!t->known)
		make_known(t);
	own_work++;
	uint64_t number = atomic_fetch_add(&t->queued, 1) + 1;
	if (number - atomic_load_explicit(&t->done, memory_order_relaxed) > TIMELINE_QUEUE + BATCH)
		timeline_finish(t, number - TIMELINE_QUEUE);
	return number;
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
	if (t == on || atomic_load(&on->done) >= until)
		return;
	uint64_t number = timeline_queue(t);
	pthread_mutex_lock(&lock);
	if (room(t))
		t->waits[(t->first + t->count++) % t->capacity] =
			(struct dependency){ number, until, on };
	pthread_mutex_unlock(&lock);
}

void timeline_finish(struct timeline *t, uint64_t until)
{
	pthread_mutex_lock(&lock);
	finish(t, until);
	pthread_mutex_unlock(&lock);
}

void timeline_finish_all(void)
{
	pthread_mutex_lock(&lock);
	for (struct timeline *t = all; t; t = t->next)
		finish(t, atomic_load(&t->queued));
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

bool timeline_asked(struct timeline *t, uint64_t until, struct poll *poll)
{
	if (atomic_load(&t->done) >= until)
		return true;
	pthread_mutex_lock(&lock);
	bool enough = tired(poll);
	if (enough && own_work)
		finish(t, until);
	pthread_mutex_unlock(&lock);
	return enough;
}
