#include "torch/streams.h"

#include <stdlib.h>

#include "util/util.h"

/* Pieces of work that a queue holds, and how many are done at once if it is full. */
#define QUEUE 1024
#define BATCH 64

/* ---- completion ---- */

static void finish(struct machine *m, int stream, int64_t until)
{
	struct stream_queue *t = &m->streams[stream];

	if (t->done >= until)
		return;
	t->done = until;
	while (t->first < t->count && t->waits[t->first].at <= until) {
		struct wait w = t->waits[t->first++];

		finish(m, w.on, w.until);
	}
	if (t->first == t->count)
		t->first = t->count = 0;
}

void stream_work(struct machine *m, int stream, int64_t count)
{
	struct stream_queue *t = &m->streams[stream];

	t->queued += count;
	if (t->queued - t->done > QUEUE + BATCH)
		finish(m, stream, t->queued - QUEUE);
}

int64_t stream_event(struct machine *m, int stream)
{
	stream_work(m, stream, 1);
	return m->streams[stream].queued;
}

void stream_wait(struct machine *m, int stream, int on)
{
	struct stream_queue *t = &m->streams[stream];
	int64_t until;

	if (stream == on)
		return;
	until = stream_event(m, on);
	if (m->streams[on].done >= until)
		return;
	stream_work(m, stream, 1);
	t->waits = grow(t->waits, t->count, &t->room, sizeof(*t->waits));
	t->waits[t->count++] = (struct wait){ t->queued, until, on };
}

void host_wait_event(struct machine *m, int stream, int64_t event)
{
	finish(m, stream, event);
}

void host_wait(struct machine *m, int stream)
{
	finish(m, stream, m->streams[stream].queued);
}

void host_wait_all(struct machine *m)
{
	for (int i = 0; i < STREAMS; i++)
		host_wait(m, i);
}

/* ---- blocks that other streams used ---- */

struct deferred_free {
	struct allocation *block;
	int events; /* events that are not known to be complete */
};

void record_stream(tensor t, int stream)
{
	if (t.storage && t.storage->stream != stream)
		t.storage->used |= 1u << stream;
}

void streams_defer_free(struct machine *m, struct allocation *block, unsigned used)
{
	struct deferred_free *lent = xcalloc(1, sizeof(*lent));

	lent->block = block;
	m->deferred_count++;
	allocator_free_later(m->allocator, block);
	for (int i = 0; i < STREAMS; i++) {
		struct stream_queue *t = &m->streams[i];

		if (!(used & 1u << i))
			continue;
		lent->events++;
		t->uses = grow(t->uses, t->use_count, &t->use_room, sizeof(*t->uses));
		t->uses[t->use_count++] = (struct use){ stream_event(m, i), lent };
	}
}

/* process_events: the events of a stream, oldest first. */
static void process_events(struct machine *m, struct stream_queue *t)
{
	while (t->use_first < t->use_count && t->uses[t->use_first].until <= t->done) {
		struct deferred_free *lent = t->uses[t->use_first++].block;

		if (--lent->events)
			continue;
		allocator_free_now(m->allocator, lent->block);
		m->deferred_count--;
		free(lent);
	}
	if (t->use_first == t->use_count)
		t->use_first = t->use_count = 0;
}

void streams_process_events(struct machine *m)
{
	for (int i = 0; m->deferred_count && i < STREAMS; i++)
		process_events(m, &m->streams[i]);
}

void streams_release(struct machine *m)
{
	host_wait_all(m);
	streams_process_events(m);
	for (int i = 0; i < STREAMS; i++) {
		free(m->streams[i].waits);
		free(m->streams[i].uses);
	}
}
