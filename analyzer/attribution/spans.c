#include "attribution/spans.h"

#include <stdlib.h>

void spans_release(struct spans *s)
{
	free(s->list);
	*s = (struct spans){ 0 };
}

struct span *spans_begin(struct spans *s, uint64_t time_ns, enum activity a, uint32_t caller,
			 bytes level)
{
	struct span last = { 0 };

	if (s->count)
		last = s->list[s->count - 1];
	if (s->count == MAX_SPANS)
		return &s->list[s->count - 1];
	/* The clocks of two threads may differ a little. */
	if (time_ns < last.start_ns)
		time_ns = last.start_ns;
	s->list = grow(s->list, s->count, &s->room, sizeof(*s->list));
	if (s->count == MAX_SPANS - 1)
		a = ACTIVITY_GAP;
	s->has_backward |= a == ACTIVITY_BACKWARD;
	s->list[s->count] = (struct span){
		.start_ns = time_ns,
		.caller = caller,
		.floor = level,
		.peak = level,
		.reserved = last.reserved,
		.device = last.device,
		.activity = (uint8_t)a,
	};
	return &s->list[s->count++];
}

const struct span *spans_at(const struct spans *s, uint64_t time_ns)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->list[middle].start_ns <= time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &s->list[low - 1] : NULL;
}
