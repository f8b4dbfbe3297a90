#include "duplicates/untied.h"

#include "attribution/attribution.h"
#include "duplicates/trained.h"

/* The time of the model's first call; UINT64_MAX if there was none. */
static uint64_t first_call(const struct spans *spans)
{
	for (size_t i = 0; i < spans->count; i++)
		if (activity_is_call(spans->list[i].activity))
			return spans->list[i].start_ns;
	return UINT64_MAX;
}

/* Did the job's own code make the block, or copy.deepcopy() outside of a constructor? A conversion
 * of a whole module has the hint of parameters. */
static int is_copied(const struct lifetime *l, const struct tables *t)
{
	const struct stack_info *s = tables_stack_info(t, l->alloc.stack);

	if (s->tags & TAGGED(COPY))
		return !(s->flags & STACK_INIT);
	return l->category != CATEGORY_GRADIENTS && l->category != CATEGORY_OPTIMIZER_STATES &&
	       tables_stack_is_own_code(t, l->alloc.stack) &&
	       (stack_hint(s->flags) == HINT_NOTHING || stack_hint(s->flags) == HINT_INPUTS);
}

/* May the copy be data, which has a parameter's size by chance? */
static int may_be_data(const struct lifetime *l, const struct tables *t)
{
	const struct stack_info *s = tables_stack_info(t, l->alloc.stack);

	return l->category == CATEGORY_INPUTS || stack_hint(s->flags) == HINT_INPUTS ||
	       (l->category != CATEGORY_PARAMETERS && !(s->tags & TAGGED(COPY)));
}

/* Blocks of one size: parameters that are no copies, copies, which may be data, gradients. */
struct of_size {
	uint32_t parameters, copies, maybe_data, gradients, all;
};

/* The parameters that have the states of this size. States of one size alone may be two of one
 * parameter, or one of each of two. */
static uint64_t parameters_with_states(const struct lifetimes *l, const struct tables *t,
				       bytes size)
{
	struct trained n = { 0 };
	uint64_t found = 0;

	trained_count(&n, l, t, 0);
	if (n.states.count > 1 && n.states_each)
		found = size_counts_find(&n.states, size) / n.states_each;
	trained_release(&n);
	return found;
}

struct untied untied_live(const struct lifetimes *l, const struct spans *spans,
			  const struct tables *t, const struct failed_request *request)
{
	uint64_t called_ns;
	struct of_size n = { 0 };
	struct untied found = { 0 };
	struct size_counts sizes = { 0 };
	uint32_t weights;
	int has_trained = 0, others = 0;

	for (size_t i = 0; i < l->count; i++)
		if (l->list[i].category == CATEGORY_PARAMETERS) {
			found.block = larger_of(found.block, l->list[i].alloc.bytes);
			size_counts_add(&sizes, l->list[i].alloc.bytes);
		}
	if (found.block < TRAINED_MIN_SIZE) {
		size_counts_release(&sizes);
		return (struct untied){ 0 };
	}
	called_ns = first_call(spans);
	size_counts_sort(&sizes);
	for (size_t i = 0; i < l->count; i++) {
		const struct lifetime *x = &l->list[i];
		int is_copy = x->alloc.time_ns < called_ns && is_copied(x, t);

		has_trained |= x->category == CATEGORY_OPTIMIZER_STATES ||
			       x->category == CATEGORY_GRADIENTS;
		if (x->alloc.bytes != found.block) {
			others |= is_copy && x->alloc.bytes >= TRAINED_MIN_SIZE &&
				  size_counts_find(&sizes, x->alloc.bytes);
			continue;
		}
		n.all++;
		n.copies += is_copy;
		n.maybe_data += is_copy && may_be_data(x, t);
		n.parameters += !is_copy && x->category == CATEGORY_PARAMETERS;
		n.gradients += x->category == CATEGORY_GRADIENTS;
	}
	size_counts_release(&sizes);
	/* As many copies of several parameters as there are of these are a copy of the model. */
	if (others || !n.copies || !n.parameters || n.copies > n.parameters ||
	    (n.copies == n.parameters && n.copies > 1))
		return (struct untied){ 0 };
	weights = n.parameters + n.copies;
	/* Before the first backward pass is over, nothing shows which parameters are trained. */
	if (has_trained
		    ? n.gradients < weights && parameters_with_states(l, t, found.block) < weights
		    : n.maybe_data > 0)
		return (struct untied){ 0 };
	n.all += request->bytes == found.block;
	found.count = n.copies;
	found.bytes = bytes_times(found.block, n.all) / weights * n.copies;
	return found;
}
