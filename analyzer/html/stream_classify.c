#include "html/stream_classify.h"

#include <stdlib.h>

#include "attribution/classify.h"

/* Moments of comparison. Each costs a classification of the live set; a trace's steps are alike, so
 * more of them would find the same. */
#define MOMENTS 24

enum settled { NOT_SETTLED, BY_MOMENT, BY_FAILURE, BY_PEAK };

/* Blocks and their numbers in the stream, in the same order. */
struct chosen {
	struct lifetimes lifetimes;
	uint32_t *index;
	size_t room;
};

struct sweep {
	struct stream *s;
	struct block_setting setting;
	uint32_t *live, *place; /* live blocks; the place of each block among them */
	size_t live_count;
	struct chosen at, others; /* of a moment; those that were freed before it */
};

static void choose(struct chosen *c, const struct stream *s, uint32_t block)
{
	c->index = grow(c->index, c->lifetimes.count, &c->room, sizeof(*c->index));
	c->index[c->lifetimes.count] = block;
	c->lifetimes.list = grow(c->lifetimes.list, c->lifetimes.count, &c->lifetimes.room,
				 sizeof(*c->lifetimes.list));
	c->lifetimes.list[c->lifetimes.count++] = s->blocks[block].life;
}

static void assign_categories(struct stream *s, struct chosen *c, enum settled by)
{
	for (size_t i = 0; i < c->lifetimes.count; i++) {
		struct stream_block *b = &s->blocks[c->index[i]];

		if (b->settled < by) {
			b->life.category = c->lifetimes.list[i].category;
			b->settled = (uint8_t)by;
		}
	}
}

static void release(struct chosen *c)
{
	lifetimes_release(&c->lifetimes);
	free(c->index);
	*c = (struct chosen){ 0 };
}

static void compare(struct sweep *w, enum settled by)
{
	w->at.lifetimes.count = 0;
	for (size_t i = 0; i < w->live_count; i++)
		choose(&w->at, w->s, w->live[i]);
	classify_beside(&w->at.lifetimes, &w->others.lifetimes, &w->setting);
	assign_categories(w->s, &w->at, by);
	assign_categories(w->s, &w->others, BY_MOMENT);
	w->others.lifetimes.count = 0;
}

static void sweep_event(struct sweep *w, size_t event, uint32_t *allocated, size_t *freed)
{
	struct stream *s = w->s;

	if (s->kinds[event] == STREAM_ALLOC) {
		w->place[*allocated] = (uint32_t)w->live_count;
		w->live[w->live_count++] = (*allocated)++;
	} else if (s->kinds[event] == STREAM_FREE) {
		uint32_t block = s->freed[(*freed)++], last = w->live[--w->live_count];

		w->live[w->place[block]] = last;
		w->place[last] = w->place[block];
		if (!s->blocks[block].settled)
			choose(&w->others, s, block);
	}
}

/* The event of the failure that is the last one of the device. */
static size_t last_failure(const struct stream *s)
{
	size_t i = s->events;

	while (i > 0 && s->kinds[i - 1] != STREAM_FAILURE)
		i--;
	return i ? i - 1 : s->events;
}

static int same_block(const struct lifetime *a, const struct lifetime *b)
{
	return a->alloc.address == b->alloc.address && a->alloc.time_ns == b->alloc.time_ns;
}

/* The category that the report gives to a block of the peak. `peak` is sorted by address. */
static void assign_peak_categories(struct stream *s, const struct lifetimes *peak)
{
	for (size_t i = 0; i < s->block_count; i++) {
		struct stream_block *b = &s->blocks[i];
		size_t low = 0, high = peak->count;

		if (b->life.alloc.time_ns > peak->until_ns)
			continue;
		while (low < high) {
			size_t middle = low + (high - low) / 2;

			if (peak->list[middle].alloc.address < b->life.alloc.address)
				low = middle + 1;
			else
				high = middle;
		}
		if (low < peak->count && same_block(&peak->list[low], &b->life)) {
			b->life.category = peak->list[low].category;
			b->settled = BY_PEAK;
		}
	}
}

void stream_classify(struct stream *s, const struct device *d, uint64_t end_ns)
{
	struct sweep w = { .s = s,
			   .setting = { .spans = &d->spans,
					.tables = s->tables,
					.end_ns = device_end_of_job(d, end_ns),
					.outlived = d->outlived },
			   .live = xcalloc(s->block_count + 1, sizeof(*w.live)),
			   .place = xcalloc(s->block_count + 1, sizeof(*w.place)) };
	size_t failure = last_failure(s), freed = 0, every = s->events / MOMENTS + 1;
	uint32_t allocated = 0;

	assign_peak_categories(s, &d->peak_blocks);
	for (size_t i = 0; i < s->events; i++) {
		if (i == failure)
			compare(&w, BY_FAILURE);
		else if (i % every == every / 2)
			compare(&w, BY_MOMENT);
		sweep_event(&w, i, &allocated, &freed);
	}
	compare(&w, BY_MOMENT);
	release(&w.at);
	release(&w.others);
	free(w.live);
	free(w.place);
}
