#include "duplicates/trained.h"

#include "attribution/attribution.h"

uint64_t trained_of(const struct trained *n, bytes size)
{
	if (n->by_gradients)
		return size_counts_find(&n->gradients, size);
	if (n->states_each)
		return size_counts_find(&n->states, size) / n->states_each;
	/* Until the first backward pass is over, all of the model may be trained. */
	return size_counts_find(&n->parameters, size);
}

/*
 * Without gradients, the common divisor of the states' numbers tells how many each parameter has.
 * If all layers are alike it is a multiple of that: then as many as leave a parameter for each.
 */
static uint64_t states_each(const struct trained *n)
{
	uint64_t divisor = 0, least = 1;

	for (size_t i = 0; i < n->states.count; i++) {
		const struct size_count *s = &n->states.list[i];
		uint64_t parameters = size_counts_find(&n->parameters, s->size);

		/* Euclid's algorithm. */
		for (uint64_t with = s->count, rest; with; divisor = with, with = rest)
			rest = divisor % with;
		while (parameters && least < TRAINED_MOST_STATES && s->count / least > parameters)
			least++;
	}
	return n->states.count >= TRAINED_MIN_SIZES && divisor <= TRAINED_MOST_STATES ? divisor
										      : least;
}

/* The bytes of gradients of one parameter each. A bucket of DDP has those of several, and does not
 * show their number. */
static bytes single_gradients(const struct trained *n)
{
	bytes sum = 0;

	for (size_t i = 0; i < n->gradients.count; i++) {
		const struct size_count *g = &n->gradients.list[i];

		if (size_counts_find(&n->parameters, g->size))
			sum = bytes_add(sum, bytes_times(g->size, g->count));
	}
	return sum;
}

uint64_t trained_near(const struct trained *n, bytes size)
{
	if (n->by_gradients)
		return size_counts_count_near(&n->gradients, size);
	if (n->states_each)
		return size_counts_count_near(&n->states, size) / n->states_each;
	return size_counts_count_near(&n->parameters, size);
}

/* Gradients beyond one of each parameter. */
static bytes extra_gradients(const struct trained *n)
{
	bytes sum = 0;

	for (size_t i = 0; i < n->gradients.count; i++) {
		bytes size = n->gradients.list[i].size;
		uint64_t parameters = size_counts_count_near(&n->parameters, size),
			 gradients = size_counts_count_near(&n->gradients, size);

		if (parameters && gradients > parameters)
			sum = bytes_add(sum,
					bytes_times(size, (int64_t)n->gradients.list[i].count) /
						(bytes)gradients * (bytes)(gradients - parameters));
	}
	return sum;
}

void trained_count(struct trained *n, const struct lifetimes *l, const struct tables *t,
		   int is_backward)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct lifetime *x = &l->list[i];
		bytes size = x->alloc.bytes;

		if (size < TRAINED_MIN_SIZE)
			continue;
		if (x->category == CATEGORY_OPTIMIZER_STATES &&
		    !tables_stack_is_own_code(t, x->alloc.stack))
			size_counts_add(&n->states, size);
		if (x->category == CATEGORY_GRADIENTS) {
			size_counts_add(&n->gradients, size);
			n->gradient_bytes = bytes_add(n->gradient_bytes, size);
		}
		if (x->category == CATEGORY_PARAMETERS) {
			size_counts_add(&n->parameters, size);
			n->parameter_bytes = bytes_add(n->parameter_bytes, size);
		}
	}
	size_counts_sort(&n->parameters);
	size_counts_sort(&n->states);
	size_counts_sort(&n->gradients);
	n->extra_gradients = extra_gradients(n);
	n->by_gradients = !is_backward && single_gradients(n) > n->parameter_bytes / 5 * 2;
	n->states_each = n->states.count ? states_each(n) : 0;
}

uint64_t trained_at_most(const struct trained *n, bytes size)
{
	uint64_t parameters = size_counts_find(&n->parameters, size);
	uint64_t gradients = size_counts_find(&n->gradients, size);

	return gradients > parameters ? gradients : parameters;
}

int trained_has(const struct trained *n, bytes size)
{
	return size_counts_find(&n->parameters, size) || trained_of(n, size);
}

static int is_about(bytes size, bytes all)
{
	return size >= all / 100 * 99 && size <= all / 100 * 101;
}

int trained_is_all(const struct trained *n, bytes size)
{
	return is_about(size, n->gradient_bytes) || is_about(size, n->parameter_bytes);
}

void trained_release(struct trained *n)
{
	size_counts_release(&n->parameters);
	size_counts_release(&n->states);
	size_counts_release(&n->gradients);
}
