#include "duplicates/untied.h"

#include "attribution/attribution.h"
#include "duplicates/trained.h"

/* The time of the model's first call; UINT64_MAX if there was none. */
static uint64_t first_call(const struct spans *spans)
{
	for (size_t i = 0; i < spans->count; i++)
		if (spans->list[i].activity == ACTIVITY_MODEL ||
		    spans->list[i].activity == ACTIVITY_EVALUATION)
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

/* Blocks of one size: parameters that are no copies, copies, gradients, states. */
struct of_size {
	uint32_t parameters, copies, gradients, states, all;
};

/* Is each of them trained? Before the first backward pass is over, nothing shows it. */
static int are_trained(const struct of_size *n, int has_trained)
{
	uint32_t weights = n->parameters + n->copies;

	return !has_trained || n->gradients >= weights || n->states >= weights;
}

struct untied untied_live(const struct lifetimes *l, const struct spans *spans,
			  const struct tables *t, const struct failed_request *request)
{
	uint64_t called_ns = first_call(spans);
	struct of_size n = { 0 };
	struct untied found = { 0 };
	struct size_counts sizes = { 0 };
	int has_trained = 0, others = 0;

	for (size_t i = 0; i < l->count; i++)
		if (l->list[i].category == CATEGORY_PARAMETERS) {
			found.block = larger_of(found.block, l->list[i].alloc.bytes);
			size_counts_add(&sizes, l->list[i].alloc.bytes);
		}
	size_counts_sort(&sizes);
	for (size_t i = 0; i < l->count && found.block >= TRAINED_MIN_SIZE; i++) {
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
		n.parameters += !is_copy && x->category == CATEGORY_PARAMETERS;
		n.gradients += x->category == CATEGORY_GRADIENTS;
		n.states += x->category == CATEGORY_OPTIMIZER_STATES;
	}
	size_counts_release(&sizes);
	if (others || !n.copies || !n.parameters || n.copies > n.parameters ||
	    !are_trained(&n, has_trained))
		return (struct untied){ 0 };
	n.all += request->bytes == found.block;
	found.count = n.copies;
	found.bytes = bytes_times(found.block, n.all) / (n.parameters + n.copies) * n.copies;
	return found;
}
