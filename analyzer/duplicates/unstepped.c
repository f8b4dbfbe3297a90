#include "duplicates/unstepped.h"

#include "attribution/attribution.h"
#include "util/size_counts.h"

/* Does a state have this size? One of another precision has half or twice of it, or four times. */
static int has_state(const struct size_counts *states, bytes size)
{
	return size_counts_find(states, size) || size_counts_find(states, size / 2) ||
	       size_counts_find(states, size * 2) || size_counts_find(states, size * 4);
}

/* The same for parameters, whose blocks may be a little larger than they are. */
static int has_parameter(const struct size_counts *parameters, bytes size)
{
	return size_counts_near(parameters, size) || size_counts_near(parameters, size / 2) ||
	       size_counts_near(parameters, size * 2);
}

/* May it be a parameter? Some libraries make theirs in ways that no pattern knows, before the first
 * step. */
static int may_be_parameter(const struct lifetime *l, const struct spans *spans,
			    const struct tables *t)
{
	const struct span *s = spans_at(spans, l->alloc.time_ns);

	return l->category == CATEGORY_PARAMETERS ||
	       (s && s->phase == PHASE_SETUP &&
		!(t->thread_flags[l->alloc.thread] & THREAD_AUTOGRAD));
}

/* Has this step's backward pass made it, and it is not the first step? */
static int is_made_anew(const struct lifetime *l, const struct spans *spans, const struct span *now)
{
	const struct span *s = now && now->step > 1 ? spans_at(spans, l->alloc.time_ns) : NULL;

	return s && s->step == now->step && s->phase == PHASE_BACKWARD;
}

bytes unstepped_live(const struct lifetimes *l, const struct spans *spans, const struct tables *t,
		     const struct span *now)
{
	struct size_counts states = { 0 }, parameters = { 0 };
	bytes sum = 0;
	int is_sure = 0; /* a state has a stack that says so */

	for (size_t i = 0; i < l->count; i++) {
		if (may_be_parameter(&l->list[i], spans, t))
			size_counts_add(&parameters, l->list[i].alloc.bytes);
		if (l->list[i].category != CATEGORY_OPTIMIZER_STATES ||
		    tables_stack_is_own_code(t, l->list[i].alloc.stack))
			continue;
		size_counts_add(&states, l->list[i].alloc.bytes);
		is_sure |= (tables_stack_flags(t, l->list[i].alloc.stack) & STACK_OPTIMIZER) != 0;
	}
	size_counts_sort(&states);
	size_counts_sort(&parameters);
	for (size_t i = 0; is_sure && i < l->count; i++) {
		const struct lifetime *x = &l->list[i];

		if (x->category == CATEGORY_GRADIENTS && !is_made_anew(x, spans, now) &&
		    !has_state(&states, x->alloc.bytes) &&
		    has_parameter(&parameters, x->alloc.bytes))
			sum = bytes_add(sum, x->alloc.bytes);
	}
	size_counts_release(&states);
	size_counts_release(&parameters);
	return sum;
}
