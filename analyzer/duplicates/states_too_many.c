#include "duplicates/states_too_many.h"

#define ADAM_STATES 2 /* of each parameter */
#define MOST 90       /* percent of the parameters, by their bytes */

/*
 * The share of the states of a size that one optimizer has not, as that of all of about that size:
 * the allocator may have left more or less with the block of a state than with that of its
 * parameter.
 */
static bytes beyond_adam(const struct trained *n, const struct size_count *s)
{
	uint64_t parameters = size_counts_count_near(&n->parameters, s->size),
		 gradients = size_counts_count_near(&n->gradients, s->size),
		 states = size_counts_count_near(&n->states, s->size);

	parameters = gradients > parameters ? gradients : parameters;
	if (states <= TRAINED_MOST_STATES * parameters)
		return 0;
	return bytes_times(s->size, s->count) / (bytes)states *
	       (bytes)(states - ADAM_STATES * parameters);
}

/* The states of a second optimizer, which may be allocating them: there are more states than one
 * optimizer has for each parameter. The bytes beyond Adam's are of the second. Of a model and its
 * deep copy, gradients show which one is trained. Two equal models may be trained in turn, each
 * with an optimizer of its own, and gradients of one of them. */
bytes states_too_many(const struct trained *n, int has_deep_copy)
{
	bytes sum = 0, too_many = 0, all = 0;

	for (size_t i = 0; i < n->states.count; i++) {
		const struct size_count *s = &n->states.list[i];
		int by_gradients = has_deep_copy && n->by_gradients;
		uint64_t parameters =
			by_gradients ? trained_of(n, s->size) : trained_at_most(n, s->size);
		bytes blocks = bytes_times(s->size, s->count), beyond;

		all = bytes_add(all, blocks);
		if (!parameters || s->count <= TRAINED_MOST_STATES * parameters)
			continue;
		beyond = by_gradients ? bytes_times(s->size, s->count - ADAM_STATES * parameters)
				      : beyond_adam(n, s);
		too_many = bytes_add(too_many, beyond ? blocks : 0);
		sum = bytes_add(sum, beyond);
	}
	return too_many > all / 2 ? sum : 0;
}

/* Have most parameters the states of an optimizer, from earlier steps? With one state each, half of
 * the parameters of a size could have two. */
static int have_states(const struct trained *n, const struct size_counts *earlier)
{
	bytes all = 0, with = 0;

	for (size_t i = 0; i < n->parameters.count; i++) {
		const struct size_count *p = &n->parameters.list[i];
		bytes blocks = bytes_times(p->size, (int64_t)p->count);

		all = bytes_add(all, blocks);
		if (size_counts_count_near(earlier, p->size) >= ADAM_STATES * p->count)
			with = bytes_add(with, blocks);
	}
	return all && with / MOST >= all / 100;
}

bytes states_again(const struct trained *n, const struct lifetimes *l, const struct spans *spans,
		   const struct span *now)
{
	struct size_counts earlier = { 0 };
	bytes again = 0;

	for (size_t i = 0; now && i < l->count; i++) {
		const struct lifetime *state = &l->list[i];
		const struct span *made = spans_at(spans, state->alloc.time_ns);

		if (state->category != CATEGORY_OPTIMIZER_STATES ||
		    state->alloc.bytes < TRAINED_MIN_SIZE || !made)
			continue;
		if (made->step < now->step)
			size_counts_add(&earlier, state->alloc.bytes);
		else if (trained_at_most(n, state->alloc.bytes))
			again = bytes_add(again, state->alloc.bytes);
	}
	size_counts_sort(&earlier);
	if (!have_states(n, &earlier))
		again = 0;
	size_counts_release(&earlier);
	return again;
}
