#include "attribution/corrections.h"

#include "util/order.h"
#include "util/size_counts.h"

#include <stdlib.h>

#define MAX_SETS 64   /* of gradients of one model */
#define READ_STATES 2 /* Adam's, of each parameter */

static int has_no_stack(const struct block_context *c, const struct lifetime *l)
{
	return !(tables_stack_flags(c->in.tables, l->alloc.stack) & STACK_FRAMES);
}

/* The sizes of the blocks of some categories. */
static struct size_counts sizes_of(const struct lifetimes *l, unsigned categories)
{
	struct size_counts s = { 0 };

	for (size_t i = 0; i < l->count; i++)
		if (categories & 1u << l->list[i].category)
			size_counts_add(&s, l->list[i].alloc.bytes);
	size_counts_sort(&s);
	return s;
}

/* How many blocks have `size`, or its half or double: the same tensor in another precision? */
static uint64_t count_alike(const struct size_counts *s, bytes size)
{
	return size_counts_find(s, size) + size_counts_find(s, 2 * size) +
	       size_counts_find(s, size / 2);
}

/* count_alike() for large blocks, which the allocator may have left up to 1 MiB larger. */
static uint64_t count_about(const struct size_counts *s, bytes size)
{
	return size_counts_count_near(s, size) + size_counts_find(s, 2 * size) +
	       size_counts_find(s, size / 2);
}

/* Is the block a parameter for no other reason than that a constructor allocated it? */
static int is_doubtful(const struct block_context *c, const struct lifetime *l)
{
	const struct stack_info *p = tables_stack_info(c->in.tables, l->alloc.stack);

	return l->category == CATEGORY_PARAMETERS && p->flags & STACK_INIT &&
	       block_context_hint(c, p) == HINT_NOTHING;
}

/*
 * A constructor allocates a module's parameters and its buffers, but only parameters are trained.
 * If most of the certain parameters have gradients or optimizer states of their size, a doubtful
 * one that has none is a buffer.
 */
static void find_untrained(const struct block_context *c, struct lifetimes *l)
{
	struct size_counts trained =
		sizes_of(l, 1u << CATEGORY_OPTIMIZER_STATES | 1u << CATEGORY_GRADIENTS);
	struct size_counts parameters = sizes_of(l, 1u << CATEGORY_PARAMETERS);
	bytes certain = 0, matched = 0;

	for (size_t i = 0; i < l->count; i++) {
		bytes size = l->list[i].alloc.bytes;

		if (l->list[i].category != CATEGORY_PARAMETERS || is_doubtful(c, &l->list[i]))
			continue;
		certain = bytes_add(certain, size);
		if (count_about(&trained, size))
			matched = bytes_add(matched, size);
	}
	for (size_t i = 0; i < l->count && matched > certain / 2; i++) {
		bytes size = l->list[i].alloc.bytes;

		if (is_doubtful(c, &l->list[i]) &&
		    count_about(&trained, size) < count_about(&parameters, size))
			l->list[i].category = CATEGORY_BUFFERS;
	}
	size_counts_release(&trained);
	size_counts_release(&parameters);
}

/*
 * A job that moves its modules to the GPU allocates no parameters there. If it failed before the
 * model was called, other blocks of constructors are not known to be of a module: a data set has a
 * constructor too.
 */
static void find_constructed(const struct block_context *c, struct lifetimes *l)
{
	int moves = 0;

	if (!c->span_count || c->in.spans->list[c->span_count - 1].phase != PHASE_SETUP)
		return;
	for (size_t i = 0; i < l->count && !moves; i++)
		moves = stack_hint(
				tables_stack_info(c->in.tables, l->list[i].alloc.stack)->flags) ==
			HINT_APPLY;
	for (size_t i = 0; moves && i < l->count; i++)
		if (is_doubtful(c, &l->list[i]))
			l->list[i].category = CATEGORY_OTHER;
}

/* If the trace ends within a backward pass, a block of a parameter's size is its gradient. */
static void find_gradients(const struct block_context *c, struct lifetimes *l)
{
	struct size_counts parameters = sizes_of(l, 1u << CATEGORY_PARAMETERS);

	for (size_t i = 0; i < l->count; i++) {
		struct lifetime *x = &l->list[i];
		struct block_info f;

		if (x->category != CATEGORY_TEMPORARIES)
			continue;
		f = block_info_of(c, x);
		if (f.alloc_span && !f.free_span && f.alloc_span->phase == PHASE_BACKWARD &&
		    f.backward_end == c->span_count && count_alike(&parameters, x->alloc.bytes))
			x->category = CATEGORY_GRADIENTS;
	}
	size_counts_release(&parameters);
}

/* Is the block a parameter because it was read from a file? A small block has no stack: it counts
 * as those around it. */
static int is_read(const struct block_context *c, const struct lifetime *l)
{
	const struct span *s = spans_at(c->in.spans, l->alloc.time_ns);
	uint32_t stack = l->alloc.stack;

	if (has_no_stack(c, l) && s)
		stack = s->stack;
	return l->category == CATEGORY_PARAMETERS &&
	       tables_stack_info(c->in.tables, stack)->tags & TAGGED(LOAD);
}

static int newest_first(const void *a, const void *b)
{
	const struct lifetime *x = *(struct lifetime *const *)a, *y = *(struct lifetime *const *)b;

	return ORDER(y->alloc.time_ns, x->alloc.time_ns);
}

/*
 * The states of a checkpoint that was read to the GPU are those of the optimizer, which takes them
 * as they are: two of each parameter, read last, while the optimizer has made none itself.
 */
static void find_read_states(const struct block_context *c, struct lifetimes *l)
{
	struct size_counts parameters = { 0 }, read = { 0 },
			   states = sizes_of(l, 1u << CATEGORY_OPTIMIZER_STATES);
	struct lifetime **list = xcalloc(l->count + 1, sizeof(*list));
	size_t count = 0;

	for (size_t i = 0; i < l->count; i++) {
		struct lifetime *x = &l->list[i];

		if (is_read(c, x)) {
			size_counts_add(&read, x->alloc.bytes);
			list[count++] = x;
		} else if (x->category == CATEGORY_PARAMETERS) {
			size_counts_add(&parameters, x->alloc.bytes);
		}
	}
	size_counts_sort(&read);
	size_counts_sort(&parameters);
	for (size_t i = 0; i < parameters.count; i++) {
		struct size_count *p = &parameters.list[i];
		int has = size_counts_find(&read, p->size) >= READ_STATES * p->count &&
			  !size_counts_find(&states, p->size);

		p->count = has ? READ_STATES * p->count : 0;
	}
	if (count)
		qsort(list, count, sizeof(*list), newest_first);
	for (size_t i = 0; i < count; i++) {
		struct size_count *p = size_counts_at(&parameters, list[i]->alloc.bytes);

		if (!p || !p->count)
			continue;
		p->count--;
		list[i]->category = CATEGORY_OPTIMIZER_STATES;
	}
	size_counts_release(&parameters);
	size_counts_release(&read);
	size_counts_release(&states);
	free(list);
}

/* A block that a backward pass has left, and of which only that says what it is. */
static int may_be_graph(const struct block_context *c, const struct lifetime *l)
{
	struct block_info f;

	if (l->category != CATEGORY_GRADIENTS ||
	    !(c->in.tables->thread_flags[l->alloc.thread] & THREAD_AUTOGRAD))
		return 0;
	f = block_info_of(c, l);
	return !f.hint && !(f.alloc_flags & STACK_FRAMES) && !(f.free_flags & STACK_ZERO_GRAD);
}

/* Takes the parameter of a gradient out of the counts; it may have half or twice the precision.
 * Returns 0 if there is none, or no more. */
static int take_parameter(struct size_counts *parameters, bytes gradient)
{
	const bytes sizes[] = { gradient, gradient / 2, 2 * gradient };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct size_count *p = size_counts_at(parameters, sizes[i]);

		if (p && p->count) {
			p->count--;
			return 1;
		}
	}
	return 0;
}

/* A job may keep the gradients of several backward passes: those of half of the parameters' bytes
 * or more are there so many times. */
static uint64_t sets_of_gradients(const struct size_counts *parameters,
				  const struct size_counts *gradients, bytes of_parameters)
{
	for (uint64_t sets = 1; sets < MAX_SETS; sets++) {
		bytes more = 0;

		for (size_t i = 0; i < parameters->count; i++) {
			const struct size_count *p = &parameters->list[i];

			if (size_counts_find(gradients, p->size) > sets * p->count)
				more = bytes_add(more, bytes_times(p->size, (int64_t)p->count));
		}
		if (more < of_parameters / 2)
			return sets;
	}
	return MAX_SETS;
}

/* The thread of the backward pass frees what the pass has used; the job's own may free gradients
 * after it. */
static int is_freed_by_backward(const struct block_context *c, const struct lifetime *l)
{
	struct block_info f = block_info_of(c, l);

	return f.free_span && f.free_span->phase == PHASE_BACKWARD &&
	       c->in.tables->thread_flags[l->freed_thread] & THREAD_AUTOGRAD;
}

/*
 * With create_graph=True, a backward pass leaves what the derivative of its gradients needs: a
 * later backward pass frees it, or it is more than all parameters together. A parameter has one
 * gradient, of its size.
 */
static void find_graphs_of_gradients(const struct block_context *c, struct lifetimes *l)
{
	struct size_counts parameters = sizes_of(l, 1u << CATEGORY_PARAMETERS),
			   gradients = sizes_of(l, 1u << CATEGORY_GRADIENTS);
	struct lifetime **left = xcalloc(l->count + 1, sizeof(*left));
	bytes of_parameters = 0, of_gradients = 0;
	uint64_t sets;
	size_t count = 0;

	for (size_t i = 0; i < l->count; i++) {
		struct lifetime *x = &l->list[i];

		if (x->category == CATEGORY_PARAMETERS)
			of_parameters = bytes_add(of_parameters, x->alloc.bytes);
		if (x->category == CATEGORY_GRADIENTS)
			of_gradients = bytes_add(of_gradients, x->alloc.bytes);
		if (may_be_graph(c, x))
			left[count++] = x;
	}
	sets = sets_of_gradients(&parameters, &gradients, of_parameters);
	for (size_t i = 0; i < parameters.count; i++)
		parameters.list[i].count *= sets;
	if (count)
		qsort(left, count, sizeof(*left), newest_first);
	for (size_t i = 0; i < count && of_parameters; i++)
		if (is_freed_by_backward(c, left[i]) ||
		    (!take_parameter(&parameters, left[i]->alloc.bytes) &&
		     of_gradients > of_parameters / 100 * 102))
			left[i]->category = CATEGORY_ACTIVATIONS;
	size_counts_release(&parameters);
	size_counts_release(&gradients);
	free(left);
}

/* A block that the job's own code allocates after the backward pass and keeps may be a state of
 * an optimizer that it wrote itself. Such a block has the size of a parameter; one of another
 * size is data. */
static void find_kept_data(const struct block_context *c, struct lifetimes *l)
{
	struct size_counts trained =
		sizes_of(l, 1u << CATEGORY_PARAMETERS | 1u << CATEGORY_GRADIENTS);

	for (size_t i = 0; i < l->count; i++) {
		uint32_t flags = tables_stack_flags(c->in.tables, l->list[i].alloc.stack);

		if (l->list[i].category == CATEGORY_OPTIMIZER_STATES && flags & STACK_FRAMES &&
		    !(flags & STACK_OPTIMIZER) && !stack_hint(flags) &&
		    !count_alike(&trained, l->list[i].alloc.bytes))
			l->list[i].category = CATEGORY_OTHER;
	}
	size_counts_release(&trained);
}

/* Small blocks have no stack, and count as parameters if the model was not called yet. So many of
 * one size that nothing trains are the samples of a data set. */
static void find_small_data(const struct block_context *c, struct lifetimes *l)
{
	struct size_counts trained =
		sizes_of(l, 1u << CATEGORY_OPTIMIZER_STATES | 1u << CATEGORY_GRADIENTS);
	struct size_counts parameters = sizes_of(l, 1u << CATEGORY_PARAMETERS);
	const struct size_count *most = NULL;
	uint64_t all = 0;

	for (size_t i = 0; i < parameters.count; i++) {
		const struct size_count *p = &parameters.list[i];

		all += p->count;
		most = !most || p->count > most->count ? p : most;
	}
	if (most && most->count >= MANY_SAMPLES && all - most->count <= most->count / 10 &&
	    !count_alike(&trained, most->size))
		for (size_t i = 0; i < l->count; i++)
			if (l->list[i].category == CATEGORY_PARAMETERS &&
			    l->list[i].alloc.bytes == most->size && has_no_stack(c, &l->list[i]))
				l->list[i].category = CATEGORY_INPUTS;
	size_counts_release(&parameters);
	size_counts_release(&trained);
}

void correct_categories(const struct block_context *c, struct lifetimes *l)
{
	find_untrained(c, l);
	find_constructed(c, l);
	find_gradients(c, l);
	find_graphs_of_gradients(c, l);
	find_read_states(c, l);
	find_kept_data(c, l);
	find_small_data(c, l);
}
