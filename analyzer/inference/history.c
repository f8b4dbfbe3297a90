#include "inference/history.h"

#include "util/order.h"

#include <stdlib.h>
#include <string.h>

/* The caching allocator leaves up to 1 MiB of a segment's rest with a large block
 * (c10/cuda/CUDACachingAllocator.cpp, kSmallSize), so sizes are exact within that. */
#define SLACK (INT64_C(1) << 20)

struct history *history_new(size_t stack_count)
{
	struct history *h = xcalloc(1, sizeof(*h));

	h->stacks = xcalloc(stack_count, sizeof(*h->stacks));
	h->stack_count = stack_count;
	h->every = 1;
	return h;
}

struct history *history_copy(const struct history *h)
{
	struct history *copy = xcalloc(1, sizeof(*copy));

	*copy = *h;
	copy->stacks = xcalloc(h->stack_count, sizeof(*copy->stacks));
	memcpy(copy->stacks, h->stacks, h->stack_count * sizeof(*copy->stacks));
	return copy;
}

void history_free(struct history *h)
{
	if (!h)
		return;
	free(h->stacks);
	free(h);
}

/* Is the block so much smaller that the tensor began anew? */
static int begins_anew(const struct stack_history *s, bytes size)
{
	return size < s->last - SLACK || size <= s->last / 2;
}

static void add_mark(struct history *h, uint64_t time_ns)
{
	if (h->blocks++ % h->every)
		return;
	if (h->mark_count == HISTORY_MARKS) {
		for (unsigned i = 0; i < HISTORY_MARKS / 2; i++)
			h->marks[i] = h->marks[2 * i];
		h->mark_count = HISTORY_MARKS / 2;
		h->every *= 2;
	}
	h->marks[h->mark_count].time_ns = time_ns;
	h->marks[h->mark_count++].clock = h->clock;
}

/* The block is live, and counted. A call that replaces its layers' blocks leaves as many live as
 * there are layers; if none stays, as where beams are put in order, that many are live at most. */
static void continue_series(struct stack_history *s, bytes size)
{
	struct series *n = &s->now;

	n->allocs++;
	n->last = size;
	n->most = s->live > n->most ? s->live : n->most;
	n->replaced = s->least >= 2;
	n->each = n->replaced ? s->least : n->most;
	if (series_calls(n) >= series_calls(&s->longest))
		s->longest = *n;
	if (s->is_marked)
		s->marked = *n;
}

static void begin_series(struct stack_history *s, bytes size)
{
	s->series_allocs = 0;
	s->series_first = size;
	s->now = (struct series){ .begin = s->allocs, .first = size };
	s->is_marked = 0;
}

void history_mark(struct history *h)
{
	for (size_t i = 0; i < h->stack_count; i++) {
		h->stacks[i].marked = h->stacks[i].now;
		h->stacks[i].is_marked = 1;
	}
}

void history_add(struct history *h, const struct mt_record *block)
{
	struct stack_history *s;

	if (!block->stack || block->stack >= h->stack_count)
		return;
	s = &h->stacks[block->stack];
	add_mark(h, block->time_ns);
	if (!s->allocs)
		s->first_clock = h->clock;
	if (!s->allocs || begins_anew(s, block->bytes)) {
		begin_series(s, block->bytes);
		s->series_clock = h->clock;
	}
	s->rises += s->allocs && block->bytes > s->last;
	s->changes += s->allocs && block->bytes != s->last;
	s->last = block->bytes;
	s->last_clock = h->clock;
	s->allocs++;
	s->bytes = bytes_add(s->bytes, block->bytes);
	s->largest = block->bytes > s->largest ? block->bytes : s->largest;
	s->least = s->live ? s->least : 0;
	s->series_allocs++;
	s->live++;
	s->most = s->live > s->most ? s->live : s->most;
	continue_series(s, block->bytes);
	h->clock = bytes_add(h->clock, block->bytes);
}

void history_take(struct history *h, const struct mt_record *block)
{
	struct stack_history *s;

	if (!block->stack || block->stack >= h->stack_count || !h->stacks[block->stack].live)
		return;
	s = &h->stacks[block->stack];
	s->live--;
	if (s->live && (!s->least || s->live < s->least))
		s->least = s->live;
}

bytes history_clock(const struct history *h, uint64_t time_ns)
{
	size_t count = COUNT_UNTIL(h->marks, h->mark_count, time_ns, time_ns);

	return count ? h->marks[count - 1].clock : 0;
}

bytes history_step(const struct history *h)
{
	bytes widest = 0;

	for (unsigned i = 1; h->every > 1 && i < h->mark_count; i++) {
		bytes step = h->marks[i].clock - h->marks[i - 1].clock;

		widest = step > widest ? step : widest;
	}
	return widest;
}
