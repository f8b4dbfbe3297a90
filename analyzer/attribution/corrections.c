#include "attribution/caches.h"
#include "attribution/corrections.h"
#include "attribution/kept_graphs.h"

#include "util/order.h"
#include "util/size_counts.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SETS 64   /* of gradients of one model */
#define READ_STATES 2 /* Adam's, of each parameter */
#define MIN_MOMENTA 3 /* live blocks of one line: fewer may be temporaries */

static int has_no_stack(const struct block_context *c, const struct lifetime *l)
{
	return !tables_stack_has_frames(c->in.tables, l->alloc.stack);
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

/* The classes that have a forward method in the trace, sorted. */
struct modules {
	struct str *classes;
	size_t count;
};

static int by_text(const void *a, const void *b)
{
	const struct str *x = a, *y = b;

	return x->length != y->length ? ORDER(x->length, y->length)
				      : memcmp(x->at, y->at, x->length);
}

/* The class of a method; without a length if it is none of this name. */
static struct str class_of(const struct tables *t, uint32_t frame, const char *method)
{
	struct str text = tables_string(t, tables_frame(t, frame)->function);
	size_t length = strlen(method);

	if (text.length <= length || memcmp(text.at + text.length - length, method, length) != 0)
		return (struct str){ 0 };
	text.length -= length;
	return text;
}

/* The caller frees `classes`. */
static struct modules find_modules(const struct tables *t)
{
	struct modules m = { .classes = xcalloc(t->frame_count + 1, sizeof(*m.classes)) };

	for (uint32_t i = 1; i < t->frame_count; i++) {
		struct str class = class_of(t, i, ".forward");

		if (class.length)
			m.classes[m.count++] = class;
	}
	if (m.count)
		qsort(m.classes, m.count, sizeof(*m.classes), by_text);
	return m;
}

/* Is the stack within a constructor of a class that has a forward method somewhere in the trace? A
 * trace of bare function names does not tell: then it is. */
static int constructs_module(const struct modules *m, const struct tables *t, uint32_t stack)
{
	const struct stack *s = tables_stack(t, stack);
	int is_known = 0;

	for (uint32_t i = 0; i < s->frame_count; i++) {
		struct str class = class_of(t, s->frames[i], ".__init__");

		if (m->count && class.length &&
		    bsearch(&class, m->classes, m->count, sizeof(class), by_text))
			return 1;
		is_known |= class.length != 0;
	}
	return !is_known;
}

static int moves_modules(const struct block_context *c, const struct lifetimes *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (stack_hint(tables_stack_flags(c->in.tables, l->list[i].alloc.stack)) ==
		    HINT_APPLY)
			return 1;
	return 0;
}

/*
 * A job that moves its modules to the GPU allocates no parameters there. Other blocks of
 * constructors are not known to be of a module: a data set has a constructor too. Once the model
 * has been called, the class of a module shows by its forward method, and others hold data, but for
 * what has a gradient or a state.
 */
static void find_constructed(const struct block_context *c, struct lifetimes *l)
{
	enum { UNKNOWN, OF_MODULE, OF_NONE };
	const struct tables *t = c->in.tables;
	struct size_counts trained, parameters;
	struct modules modules;
	unsigned char *known; /* of each stack */
	int calls;

	if (!c->span_count || !moves_modules(c, l))
		return;
	calls = c->in.spans->list[c->span_count - 1].phase != PHASE_SETUP;
	trained = sizes_of(l, 1u << CATEGORY_OPTIMIZER_STATES | 1u << CATEGORY_GRADIENTS);
	parameters = sizes_of(l, 1u << CATEGORY_PARAMETERS);
	modules = find_modules(t);
	known = xcalloc(t->stack_count + 1, 1);
	for (size_t i = 0; i < l->count; i++) {
		uint32_t stack = l->list[i].alloc.stack;
		bytes size = l->list[i].alloc.bytes;

		if (!is_doubtful(c, &l->list[i]) || stack >= t->stack_count)
			continue;
		if (!known[stack])
			known[stack] = calls && constructs_module(&modules, t, stack) ? OF_MODULE
										      : OF_NONE;
		if (known[stack] == OF_NONE &&
		    count_about(&trained, size) < count_about(&parameters, size))
			l->list[i].category = calls ? CATEGORY_INPUTS : CATEGORY_OTHER;
	}
	free(known);
	free(modules.classes);
	size_counts_release(&trained);
	size_counts_release(&parameters);
}

/* A block of the backward pass within which the trace ends. */
static int is_of_last_backward(const struct block_context *c, const struct lifetime *l)
{
	struct block_info f;

	if (l->category != CATEGORY_TEMPORARIES)
		return 0;
	f = block_info_of(c, l);
	return f.alloc_span && !f.free_span && f.alloc_span->phase == PHASE_BACKWARD &&
	       f.backward_end == c->span_count;
}

/* If the trace ends within a backward pass, a block of a parameter's size is its gradient; and so
 * is a block of about the size of a parameter that has none otherwise. */
static void find_gradients(const struct block_context *c, struct lifetimes *l)
{
	struct size_counts parameters = sizes_of(l, 1u << CATEGORY_PARAMETERS),
			   without = sizes_of(l, 1u << CATEGORY_PARAMETERS);
	size_t count = 0;
	struct lifetime **others = xcalloc(l->count + 1, sizeof(*others));

	for (size_t i = 0; i < l->count; i++) {
		struct lifetime *x = &l->list[i];
		struct size_count *p;

		if (!is_of_last_backward(c, x))
			continue;
		if (!count_alike(&parameters, x->alloc.bytes)) {
			others[count++] = x;
			continue;
		}
		p = size_counts_at(&without, x->alloc.bytes);
		if (p && p->count)
			p->count--;
		x->category = CATEGORY_GRADIENTS;
	}
	for (size_t i = 0; i < count; i++) {
		struct size_count *p = size_counts_near(&without, others[i]->alloc.bytes);

		if (!p || others[i]->alloc.bytes <= MAX_SPARE)
			continue;
		p->count--;
		others[i]->category = CATEGORY_GRADIENTS;
	}
	free(others);
	size_counts_release(&parameters);
	size_counts_release(&without);
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

/* SGD makes the momentum of a parameter in its first step, by a line of the step itself. In such a
 * step the temporaries of one parameter are gone when the next one's are made. */
static void find_momenta(const struct block_context *c, struct lifetimes *l)
{
	for (size_t i = 0; i < l->count; i++) {
		struct lifetime *x = &l->list[i];

		if (x->category == CATEGORY_TEMPORARIES &&
		    tables_stack_info(c->in.tables, x->alloc.stack)->tags & TAGGED(MOMENTUM) &&
		    block_info_of(c, x).siblings.blocks >= MIN_MOMENTA)
			x->category = CATEGORY_OPTIMIZER_STATES;
	}
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
	find_constructed(c, l);
	find_untrained(c, l);
	find_gradients(c, l);
	find_graphs_of_gradients(c, l);
	find_read_states(c, l);
	find_momenta(c, l);
	find_kept_data(c, l);
	find_small_data(c, l);
	find_kept_graphs(c, l);
	find_lone_caches(c, l);
	find_copied_caches(c, l);
}
