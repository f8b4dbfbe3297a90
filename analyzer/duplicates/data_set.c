#include "duplicates/data_set.h"

#include "attribution/attribution.h"
#include "duplicates/span_order.h"

#include <stdlib.h>

#define MIN_SET 4 /* fewer tensors that a line made in a step may be for that step */

/* Does the job's own code make this block, and no module's or library's? */
static int is_data(const struct trained *n, const struct lifetime *l, const struct tables *t)
{
	uint32_t flags = tables_stack_flags(t, l->alloc.stack);
	enum block_hint hint = stack_hint(flags);

	return flags & STACK_FRAMES && !(flags & (STACK_INIT | STACK_LOADING | STACK_SAVING)) &&
	       (hint == HINT_NOTHING || hint == HINT_INPUTS) && l->category != CATEGORY_BUFFERS &&
	       !trained_has(n, l->alloc.bytes) && !trained_has(n, l->alloc.bytes / 2) &&
	       !trained_has(n, l->alloc.bytes * 2);
}

/* May a set of `blocks` tensors be data, the first of which was allocated in the span `s`? Tensors
 * of the current step's forward pass are needed until the optimizer's step; so are one or two
 * tensors of any code of that step. */
static int may_be_data(const struct spans *spans, const struct span *s, uint32_t blocks,
		       const struct span *now)
{
	if (!s || !now || s->phase == PHASE_SETUP || s->step != now->step)
		return 1;
	if (blocks >= MIN_SET && span_order_is_behind_optimizer(spans, now))
		return 1;
	return s->phase != PHASE_FORWARD &&
	       (blocks >= MIN_SET || span_order_activity_before(spans, s) == ACTIVITY_OPTIMIZER);
}

/* The step of a block; 0: not known. */
static uint32_t step_of(const struct spans *spans, const struct lifetime *l)
{
	const struct span *s = spans_at(spans, l->alloc.time_ns);

	return s ? s->step : 0;
}

/* The tensors that one line made in one step, without a call of the model between them. */
struct set {
	bytes bytes;
	uint32_t blocks;
	uint64_t from_ns; /* when the first of them was made */
};

/* The sets of one line, whose held blocks are list[0], list[1]... of `count`: the largest one, or
 * all of one step that have as many tensors as no step needs. */
static struct set sets_of_line(const struct trained *n, const struct spans *spans,
			       const struct tables *t, const struct lifetime *const *list,
			       size_t count, const struct span *now)
{
	struct set largest = { 0 }, all = { 0 }, many = { 0 };
	uint32_t step_of_many = 0;

	for (size_t i = 0, k; i < count; i = k) {
		uint32_t step = step_of(spans, list[i]);
		struct set s = { .from_ns = list[i]->alloc.time_ns };

		for (k = i; k < count && step_of(spans, list[k]) == step &&
			    (k == i || !span_order_has_model(spans, list[k - 1]->alloc.time_ns,
							     list[k]->alloc.time_ns));
		     k++) {
			if (!is_data(n, list[k], t))
				continue;
			s.bytes = bytes_add(s.bytes, list[k]->alloc.bytes);
			s.blocks++;
		}
		all.bytes = bytes_add(all.bytes, s.bytes);
		if (!may_be_data(spans, spans_at(spans, list[i]->alloc.time_ns), s.blocks, now))
			continue;
		if (s.bytes > largest.bytes)
			largest = s;
		if (s.blocks < MIN_SET)
			continue;
		if (step != step_of_many)
			many = (struct set){ .from_ns = s.from_ns };
		step_of_many = step;
		many.bytes = bytes_add(many.bytes, s.bytes);
		many.blocks += s.blocks;
		if (many.bytes > largest.bytes)
			largest = many;
	}
	/* One block that has the size of all parameters is an average of them, and one of all
	 * gradients a copy. */
	if (largest.blocks == 1 && trained_is_all(n, largest.bytes))
		return (struct set){ 0 };
	/* The tensors of a line that allocates in every step add up; they are no set. */
	return largest.bytes >= all.bytes / 5 * 4 ? largest : (struct set){ 0 };
}

/* The end of the blocks of list[i]'s line. */
static size_t end_of_line(const struct lifetime *const *list, size_t count, size_t i)
{
	size_t k = i + 1;

	while (k < count && list[k]->alloc.stack == list[i]->alloc.stack)
		k++;
	return k;
}

/* May other lines have made a set together with the largest one, as labels beside inputs? A small
 * one may be something else. */
static int is_beside(const struct set *s, const struct set *largest, const struct spans *spans)
{
	uint64_t first = s->from_ns < largest->from_ns ? s->from_ns : largest->from_ns;
	uint64_t second = s->from_ns < largest->from_ns ? largest->from_ns : s->from_ns;

	return s->bytes >= largest->bytes / 4 && !span_order_has_model(spans, first, second);
}

struct data_set data_set_live(const struct trained *n, const struct spans *spans,
			      const struct tables *t, const struct lifetime **held, size_t count,
			      const struct span *now)
{
	struct data_set d = { 0 };
	struct set largest = { 0 };

	if (count)
		qsort(held, count, sizeof(struct lifetime *), lifetime_by_stack);
	for (size_t i = 0, k; i < count; i = k) {
		struct set s;

		k = end_of_line(held, count, i);
		s = sets_of_line(n, spans, t, held + i, k - i, now);
		if (s.bytes <= largest.bytes)
			continue;
		largest = s;
		d.bytes = s.bytes;
		d.blocks = s.blocks;
		d.stack = held[i]->alloc.stack;
	}
	for (size_t i = 0, k; i < count && d.bytes; i = k) {
		struct set s;

		k = end_of_line(held, count, i);
		s = sets_of_line(n, spans, t, held + i, k - i, now);
		if (held[i]->alloc.stack != d.stack && is_beside(&s, &largest, spans))
			d.beside = bytes_add(d.beside, s.bytes);
	}
	return d;
}
