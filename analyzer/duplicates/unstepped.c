#include "duplicates/unstepped.h"

#include "attribution/attribution.h"
#include "util/order.h"
#include "util/size_counts.h"

#include <stdlib.h>

static int by_size_and_stack(const void *a, const void *b)
{
	const struct mt_record *x = &(*(const struct lifetime *const *)a)->alloc,
			       *y = &(*(const struct lifetime *const *)b)->alloc;

	return x->bytes != y->bytes ? ORDER(x->bytes, y->bytes) : ORDER(x->stack, y->stack);
}

/* Is it too small to have a stack, and no gradient? Blocks as small as all states are do not tell
 * when the optimizer's step begins, either. */
static int is_small_state(const struct lifetime *x, const struct tables *t)
{
	return !tables_stack_has_frames(t, x->alloc.stack) &&
	       !(t->thread_flags[x->alloc.thread] & THREAD_AUTOGRAD);
}

/* States of small matrices. An optimizer without states makes a few scalars, or nothing, and what
 * looks like states has another reason. */
#define MIN_SMALL_STATES (INT64_C(256) << 10)

/* One line of an optimizer makes one state of each of its parameters: of a size, there are as many
 * parameters with states as the line with most of them has made. Returns whether a stack says that
 * it is an optimizer's, or many small blocks do. */
static int count_stepped(const struct lifetimes *l, const struct tables *t,
			 struct size_counts *stepped)
{
	const struct lifetime **states = xcalloc(l->count + 1, sizeof(struct lifetime *));
	size_t count = 0, most = 0;
	bytes small = 0;
	int is_sure = 0;

	for (size_t i = 0; i < l->count; i++) {
		const struct lifetime *x = &l->list[i];

		if (x->category != CATEGORY_OPTIMIZER_STATES ||
		    tables_stack_is_own_code(t, x->alloc.stack))
			continue;
		states[count++] = x;
		is_sure |= (tables_stack_flags(t, x->alloc.stack) & STACK_OPTIMIZER) != 0;
		small = bytes_add(small, is_small_state(x, t) ? x->alloc.bytes : 0);
	}
	if (count)
		qsort(states, count, sizeof(struct lifetime *), by_size_and_stack);
	for (size_t i = 0, k; i < count; i = k) {
		const struct mt_record *r = &states[i]->alloc;

		for (k = i; k < count && states[k]->alloc.bytes == r->bytes &&
			    states[k]->alloc.stack == r->stack;
		     k++)
			;
		most = i && states[i - 1]->alloc.bytes == r->bytes ? most : 0;
		for (; most < k - i; most++)
			size_counts_add(stepped, r->bytes);
	}
	free(states);
	size_counts_sort(stepped);
	return is_sure || small >= MIN_SMALL_STATES;
}

/* A state may have another precision than its parameter: the sizes of states for 4 bytes of a
 * parameter. */
static const unsigned state_sizes[] = { 4, 8, 2, 16, 1 };

static bytes size_of_state(bytes parameter, unsigned size)
{
	return parameter / 4 * size;
}

/* The size that most states have: layers of other widths have sizes of twice or four times, too. */
static unsigned size_of_states(const struct size_counts *stepped,
			       const struct size_counts *parameters)
{
	unsigned size = state_sizes[0];
	bytes most = 0;

	for (size_t k = 0; k < ARRAY_SIZE(state_sizes); k++) {
		bytes sum = 0;

		for (size_t i = 0; i < parameters->count; i++) {
			bytes state = size_of_state(parameters->list[i].size, state_sizes[k]);
			uint64_t n = size_counts_find(stepped, state);

			n = n < parameters->list[i].count ? n : parameters->list[i].count;
			sum = bytes_add(sum, bytes_times(state, (int64_t)n));
		}
		if (sum > most) {
			most = sum;
			size = state_sizes[k];
		}
	}
	return size;
}

/* The parameters of a gradient of this size, whose blocks may be a little larger than they are. */
static uint64_t parameters_of(const struct size_counts *parameters, bytes size)
{
	const bytes sizes[] = { size, size / 2, 2 * size };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		const struct size_count *p = size_counts_near(parameters, sizes[i]);

		if (p)
			return p->count;
	}
	return 0;
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

/* Gradients of one size that have no state: no more than there are parameters. What this step has
 * made anew is, first of all, of parameters with states. */
static bytes without_state(bytes size, uint64_t old, uint64_t anew, uint64_t parameters,
			   uint64_t stepped)
{
	uint64_t left = stepped > anew ? stepped - anew : 0;

	old = old < parameters ? old : parameters;
	return old > left ? bytes_times(size, (int64_t)(old - left)) : 0;
}

bytes unstepped_live(const struct lifetimes *l, const struct spans *spans, const struct tables *t,
		     const struct span *now)
{
	struct size_counts states = { 0 }, parameters = { 0 }, old = { 0 }, anew = { 0 };
	bytes sum = 0;
	int is_sure = count_stepped(l, t, &states);
	unsigned state;

	for (size_t i = 0; i < l->count; i++) {
		const struct lifetime *x = &l->list[i];

		if (may_be_parameter(x, spans, t))
			size_counts_add(&parameters, x->alloc.bytes);
		if (x->category == CATEGORY_GRADIENTS)
			size_counts_add(is_made_anew(x, spans, now) ? &anew : &old, x->alloc.bytes);
	}
	size_counts_sort(&parameters);
	size_counts_sort(&old);
	size_counts_sort(&anew);
	state = size_of_states(&states, &parameters);
	for (size_t i = 0; is_sure && i < old.count; i++) {
		bytes size = old.list[i].size;

		sum = bytes_add(
			sum, without_state(size, old.list[i].count, size_counts_find(&anew, size),
					   parameters_of(&parameters, size),
					   size_counts_find(&states, size_of_state(size, state))));
	}
	size_counts_release(&states);
	size_counts_release(&parameters);
	size_counts_release(&old);
	size_counts_release(&anew);
	return sum;
}
