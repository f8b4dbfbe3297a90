#include "attribution/spans.h"

#include "util/order.h"

#include <stdlib.h>

void spans_release(struct spans *s)
{
	free(s->list);
	*s = (struct spans){ 0 };
}

static int is_closed(const struct spans *s, const struct span *now)
{
	return now->activity == ACTIVITY_MAIN && now->allocs && !s->own_count;
}

/* Joins the last span with the one before if the job's own code freed in each of them all that it
 * allocated there. The number of spans then does not grow with that of the job's temporaries. */
static void join_closed(struct spans *s)
{
	struct span *now = &s->list[s->count - 1], *to = now - 1;

	if (s->count < 2 || !to->is_closed || now->step)
		return;
	to->allocs += now->allocs;
	to->frees += now->frees;
	to->floor = now->floor < to->floor ? now->floor : to->floor;
	to->peak = now->peak > to->peak ? now->peak : to->peak;
	to->reserved = now->reserved;
	to->device = now->device;
	s->count--;
}

int spans_note_own(struct spans *s, uint64_t address, int is_alloc)
{
	struct span *now = &s->list[s->count - 1];

	if (is_alloc && is_closed(s, now)) {
		now->is_closed = 1;
		join_closed(s);
		return 1;
	}
	if (s->own_count == MAX_OWN)
		return 0;
	if (is_alloc)
		s->own[s->own_count++] = address;
	for (unsigned i = 0; !is_alloc && i < s->own_count; i++)
		if (s->own[i] == address)
			s->own[i] = s->own[--s->own_count];
	return 0;
}

struct span *spans_begin(struct spans *s, uint64_t time_ns, enum activity a, uint32_t caller,
			 bytes level)
{
	struct span last = { 0 };

	if (s->count) {
		s->list[s->count - 1].is_closed |= is_closed(s, &s->list[s->count - 1]);
		last = s->list[s->count - 1];
	}
	if (s->count == MAX_SPANS)
		return &s->list[s->count - 1];
	/* The clocks of two threads may differ a little. */
	if (time_ns < last.start_ns)
		time_ns = last.start_ns;
	s->list = grow(s->list, s->count, &s->room, sizeof(*s->list));
	if (s->count == MAX_SPANS - 1)
		a = ACTIVITY_GAP;
	s->activities |= 1u << a;
	s->is_marked |= s->step_mark != 0;
	s->own_count = 0;
	s->list[s->count] = (struct span){
		.start_ns = time_ns,
		.caller = caller,
		.floor = level,
		.peak = level,
		.reserved = last.reserved,
		.device = last.device,
		.step = s->step_mark,
		.activity = (uint8_t)a,
	};
	s->step_mark = 0;
	return &s->list[s->count++];
}

const struct span *spans_at(const struct spans *s, uint64_t time_ns)
{
	size_t count = COUNT_UNTIL(s->list, s->count, start_ns, time_ns);

	return count ? &s->list[count - 1] : NULL;
}

static int is_backward(const struct backwards *b, size_t span)
{
	return b->spans->list[span].phase == PHASE_BACKWARD;
}

uint32_t backwards_over(struct backwards *b, uint64_t time_ns)
{
	for (; b->at < b->spans->count && b->spans->list[b->at].start_ns <= time_ns; b->at++)
		b->count += is_backward(b, b->at) && (!b->at || !is_backward(b, b->at - 1));
	return b->count - (b->at && is_backward(b, b->at - 1));
}
