#include "duplicates/span_order.h"

#define MAX_BETWEEN 4096 /* of more spans, one is taken to be the model's */

int span_order_has_model(const struct spans *spans, uint64_t from_ns, uint64_t to_ns)
{
	const struct span *first = spans_at(spans, from_ns), *last = spans_at(spans, to_ns);

	if (!first || last - first > MAX_BETWEEN)
		return 1;
	for (const struct span *s = first; s <= last; s++)
		if (activity_is_call(s->activity))
			return 1;
	return 0;
}

uint8_t span_order_activity_before(const struct spans *spans, const struct span *s)
{
	while (s > spans->list) {
		s--;
		if (s->activity != ACTIVITY_MAIN && s->activity != ACTIVITY_UNKNOWN &&
		    s->activity != ACTIVITY_ZERO_GRAD)
			return s->activity;
	}
	return ACTIVITY_UNKNOWN;
}

int span_order_is_behind_optimizer(const struct spans *spans, const struct span *now)
{
	return now->activity == ACTIVITY_OPTIMIZER ||
	       (now->activity == ACTIVITY_MAIN &&
		span_order_activity_before(spans, now) == ACTIVITY_OPTIMIZER);
}
