#include "passes/left.h"

#include "attribution/attribution.h"

#include <stdlib.h>

#define MIN_LEFT (INT64_C(64) << 10) /* smaller blocks have no stack */

/* A block of an earlier step that is none of what training keeps. */
static int may_be_left(const struct lifetime *l, const struct tables *t)
{
	return l->alloc.bytes >= MIN_LEFT && tables_stack_has_frames(t, l->alloc.stack) &&
	       !(tables_stack_flags(t, l->alloc.stack) & STACK_NOT_OF_A_STEP) &&
	       (category_is_of_pass(l->category) || (l->category == CATEGORY_OPTIMIZER_STATES &&
						     tables_stack_is_own_code(t, l->alloc.stack)));
}

/* Adds the blocks of one stack, in the order of time. Blocks that the job's own code allocated
 * once are data; blocks that it allocates again and again should have been freed. */
static void add_left(struct left_blocks *left, const struct spans *spans, const struct tables *t,
		     const struct lifetime *const *list, size_t count, uint32_t now)
{
	uint32_t steps = 0, last = 0, blocks = 0;
	bytes sum = 0, of_now = 0, of_step = 0, most = 0;
	int from_first = 0;

	for (size_t i = 0; i < count; i++) {
		const struct span *s = spans_at(spans, list[i]->alloc.time_ns);

		if (!s || !span_step(s))
			continue;
		from_first |= s->step == 1;
		of_step = s->step != last ? 0 : of_step;
		steps += s->step != last;
		last = s->step;
		if (s->step >= now) {
			of_now = bytes_add(of_now, list[i]->alloc.bytes);
			continue;
		}
		sum = bytes_add(sum, list[i]->alloc.bytes);
		of_step = bytes_add(of_step, list[i]->alloc.bytes);
		most = larger_of(most, of_step);
		blocks++;
	}
	if (!sum || (steps < 2 && tables_stack_is_own_code(t, list[0]->alloc.stack)))
		return;
	left->bytes = bytes_add(left->bytes, sum);
	/* Blocks after a step count as the next step's: the first step has none of them, and
	 * this step's are left from the step before, but for more than any step has left.
	 * Otherwise this step may need its own. */
	if (tables_stack_is_own_code(t, list[0]->alloc.stack)) {
		left->now = bytes_add(left->now, of_now);
		left->behind = bytes_add(left->behind, from_first ? 0 : smaller_of(of_now, most));
	}
	left->blocks += blocks;
	if (steps > left->steps)
		left->steps = steps;
	if (sum > left->most) {
		left->most = sum;
		left->stack = list[0]->alloc.stack;
	}
}

void passes_find_left(struct left_blocks *left, const struct lifetimes *l,
		      const struct spans *spans, const struct tables *t, uint32_t now)
{
	const struct lifetime **list = xcalloc(l->count + 1, sizeof(struct lifetime *));
	size_t count = 0;

	for (size_t i = 0; i < l->count; i++)
		if (may_be_left(&l->list[i], t))
			list[count++] = &l->list[i];
	if (count)
		qsort(list, count, sizeof(struct lifetime *), lifetime_by_stack);
	for (size_t i = 0, k; i < count; i = k) {
		for (k = i; k < count && list[k]->alloc.stack == list[i]->alloc.stack; k++)
			;
		add_left(left, spans, t, list + i, k - i, now);
	}
	free(list);
}

int passes_has_left(const struct lifetimes *l, const struct spans *spans, const struct tables *t,
		    uint32_t stack, uint32_t now)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct span *s = spans_at(spans, l->list[i].alloc.time_ns);

		if (l->list[i].alloc.stack == stack && may_be_left(&l->list[i], t) && s &&
		    span_step(s) && s->step < now)
			return 1;
	}
	return 0;
}
