#include "attribution/classify.h"


#include <stdlib.h>

/* Blocks of one stack that were made over so many calls of the model are a collection, not what a step works on. */
#define MOST_INPUTS 8

/* What the stack says, where nothing contradicts. */
static enum category category_of_hint(enum block_hint m, enum category otherwise)
{
	switch (m) {
	case HINT_PARAMETERS:
		return CATEGORY_PARAMETERS;
	case HINT_BUFFERS:
		return CATEGORY_BUFFERS;
	case HINT_STATES:
		return CATEGORY_OPTIMIZER_STATES;
	case HINT_INPUTS:
		return CATEGORY_INPUTS;
	case HINT_WORKSPACES:
		return CATEGORY_WORKSPACES;
	case HINT_COMMUNICATION:
	case HINT_BUCKETS:
	case HINT_REDUCED:
	case HINT_RECEIVED:
		return CATEGORY_COMMUNICATION;
	case HINT_GRADIENTS:
		return CATEGORY_GRADIENTS;
	default:
		return otherwise;
	}
}

/* Did it live on when the backward pass after its birth was over? */
static int outlives_backward(const struct block_context *c, const struct block_info *f)
{
	return f->backward_end < c->span_count &&
	       (!f->free_span || span_index(c, f->free_span) >= f->backward_end);
}

/* Is it seen to live for more than a step? */
static int lasts(const struct block_context *c, const struct block_info *f)
{
	uint32_t step = f->free_span ? f->free_span->step : c->in.spans->list[c->span_count - 1].step;

	return step > f->alloc_span->step + 1;
}

static enum category of_setup(const struct block_info *f)
{
	if (f->hint)
		return category_of_hint(f->hint, CATEGORY_OTHER);
	if (f->alloc_flags & (STACK_INIT | STACK_LOADING) || !(f->alloc_flags & STACK_FRAMES))
		return CATEGORY_PARAMETERS;
	return CATEGORY_OTHER;
}

/*
 * PyTorch gives cuBLAS its workspace from the allocator: once for each thread and stream, to stay, or for each product anew.
 */
static int is_workspace(const struct block_context *c, const struct block_info *f)
{
	if (!workspace_sizes_have(&c->workspaces, f->bytes))
		return 0;
	if (f->is_transient)
		return 1;
	return !f->free_span && f->alloc_span->step == 1 && f->backward_end < c->span_count &&
	       !(f->alloc_span->phase == PHASE_BACKWARD && c->many_workspaces);
}

/* What the job makes itself: its inputs, unless it collects something from call to call of the model. */
static enum category of_main(const struct block_info *f)
{
	return f->siblings.last_call - f->siblings.first_call >= MOST_INPUTS ? CATEGORY_OTHER
								       : CATEGORY_INPUTS;
}

/*
 * From a forward pass, and there for more than a step: made once, it is a module's, or an input. What is made again and again and stays is a
 * graph that was not let go, or the job's own collection.
 */
static enum category of_lasting(const struct block_info *f, int is_input)
{
	if (is_input)
		return of_main(f);
	return f->alloc_span->step > 1 || f->siblings.last_step > 1 ? CATEGORY_ACTIVATIONS
							   : CATEGORY_BUFFERS;
}

static enum category of_forward(const struct block_context *c, const struct block_info *f)
{
	int is_input = f->alloc_span->activity == ACTIVITY_MAIN && f->alloc_span->next != ACTIVITY_BACKWARD &&
		       f->alloc_span->next != ACTIVITY_RECOMPUTE;

	if (f->hint == HINT_RECEIVED)
		return f->alloc_span->next == ACTIVITY_MODEL ? CATEGORY_ACTIVATIONS
						       : CATEGORY_COMMUNICATION;
	if (f->hint)
		return category_of_hint(f->hint, CATEGORY_OTHER);
	if (is_workspace(c, f))
		return CATEGORY_WORKSPACES;
	if (lasts(c, f))
		return of_lasting(f, is_input);
	if (is_input)
		return CATEGORY_INPUTS;
	if (!f->free_span || f->free_span->phase == PHASE_BACKWARD)
		return CATEGORY_ACTIVATIONS;
	/* A graph that no backward pass ever used. */
	if (f->free_span != f->alloc_span && f->backward_end > span_index(c, f->free_span) && f->alloc_flags & STACK_MODULE)
		return CATEGORY_ACTIVATIONS;
	return CATEGORY_TEMPORARIES;
}

static enum category of_evaluation(const struct block_info *f)
{
	if (f->hint)
		return category_of_hint(f->hint, CATEGORY_OTHER);
	return f->alloc_span->activity == ACTIVITY_MAIN ? of_main(f) : CATEGORY_TEMPORARIES;
}

static enum category of_backward(const struct block_context *c, const struct block_info *f)
{
	if (f->hint == HINT_REDUCED)
		return outlives_backward(c, f) ? CATEGORY_GRADIENTS : CATEGORY_COMMUNICATION;
	if (f->hint)
		return category_of_hint(f->hint, CATEGORY_OTHER);
	if (is_workspace(c, f))
		return CATEGORY_WORKSPACES;
	if (f->alloc_span->activity == ACTIVITY_RECOMPUTE && !(f->free_span && f->free_span == f->alloc_span))
		return CATEGORY_ACTIVATIONS;
	/* What the schedule frees, or does not live to see the optimizer, is an input's gradient, for a pipeline's stage before. */
	if (f->free_span && (f->free_flags & STACK_PIPELINE ||
			(f->free_span->phase == PHASE_FORWARD && f->free_span->step == f->alloc_span->step)))
		return CATEGORY_TEMPORARIES;
	return outlives_backward(c, f) ? CATEGORY_GRADIENTS : CATEGORY_TEMPORARIES;
}

static enum category of_optimizer(const struct block_context *c, const struct block_info *f)
{
	const struct span *last = f->free_span ? f->free_span : &c->in.spans->list[c->span_count - 1];
	int in_the_step = last->phase == PHASE_OPTIMIZER && last->step == f->alloc_span->step;

	if (f->hint)
		return category_of_hint(f->hint, CATEGORY_OTHER);
	/* The end of the job frees the states, the step its own. */
	if (in_the_step && (!f->free_span || f->free_flags & STACK_OPTIMIZER))
		return CATEGORY_TEMPORARIES;
	if (!f->free_span || f->alloc_flags & STACK_OPTIMIZER || last->step > f->alloc_span->step + 1)
		return CATEGORY_OPTIMIZER_STATES;
	return CATEGORY_TEMPORARIES;
}

static enum category category_of(const struct block_context *c, const struct block_info *f)
{
	if (!f->alloc_span)
		return category_of_hint(f->hint, CATEGORY_OTHER);
	switch ((enum phase)f->alloc_span->phase) {
	case PHASE_SETUP:
		return of_setup(f);
	case PHASE_FORWARD:
		return of_forward(c, f);
	case PHASE_EVALUATION:
		return of_evaluation(f);
	case PHASE_BACKWARD:
		return of_backward(c, f);
	case PHASE_OPTIMIZER:
		return of_optimizer(c, f);
	case PHASE_CHECKPOINT:
		return category_of_hint(f->hint, CATEGORY_TEMPORARIES);
	default:
		return CATEGORY_OTHER;
	}
}

/* Sizes of blocks of some categories, in order. */
struct sizes {
	bytes *list;
	size_t count;
};

static int by_size(const void *a, const void *b)
{
	bytes x = *(const bytes *)a, y = *(const bytes *)b;

	return (x > y) - (x < y);
}

static struct sizes sizes_of(const struct lifetimes *l, unsigned categories)
{
	struct sizes s = { .list = xcalloc(l->count, sizeof(*s.list)) };

	for (size_t i = 0; i < l->count; i++)
		if (categories & 1u << l->list[i].category)
			s.list[s.count++] = l->list[i].alloc.bytes;
	if (s.count)
		qsort(s.list, s.count, sizeof(*s.list), by_size);
	return s;
}

/* How many are smaller than `size`? */
static size_t smaller(const struct sizes *s, bytes size)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->list[middle] < size)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How many are of that size, or of half or twice of it: in another precision? */
static size_t alike(const struct sizes *s, bytes size)
{
	const bytes keys[] = { size, 2 * size, size / 2 };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		n += smaller(s, keys[i] + 1) - smaller(s, keys[i]);
	return n;
}

/* Did only the stack of birth, some object's constructor, make it a parameter? */
static int is_doubtful(const struct block_context *c, const struct lifetime *l)
{
	const struct stack_info *p = tables_stack_info(c->in.tables, l->alloc.stack);

	return l->category == CATEGORY_PARAMETERS && p->flags & STACK_INIT &&
	       block_context_hint(c, p) == HINT_NOTHING;
}

/*
 * A module makes its buffers where it makes its parameters. But only parameters are trained: where the optimizer's states and the gradients
 * are like the parameters that are sure, one without is a buffer.
 */
static void find_untrained(const struct block_context *c, struct lifetimes *l)
{
	struct sizes trained =
		sizes_of(l, 1u << CATEGORY_OPTIMIZER_STATES | 1u << CATEGORY_GRADIENTS);
	struct sizes parameters = sizes_of(l, 1u << CATEGORY_PARAMETERS);
	bytes sure = 0, matched = 0;

	for (size_t i = 0; i < l->count; i++) {
		bytes size = l->list[i].alloc.bytes;

		if (l->list[i].category != CATEGORY_PARAMETERS || is_doubtful(c, &l->list[i]))
			continue;
		sure = bytes_add(sure, size);
		if (alike(&trained, size))
			matched = bytes_add(matched, size);
	}
	for (size_t i = 0; i < l->count && matched > sure / 2; i++) {
		bytes size = l->list[i].alloc.bytes;

		if (is_doubtful(c, &l->list[i]) && alike(&trained, size) < alike(&parameters, size))
			l->list[i].category = CATEGORY_BUFFERS;
	}
	free(trained.list);
	free(parameters.list);
}

/* Where the trace ends within a backward pass, a block of a parameter's size is its gradient. */
static void find_gradients(const struct block_context *c, struct lifetimes *l)
{
	struct sizes parameters = sizes_of(l, 1u << CATEGORY_PARAMETERS);

	for (size_t i = 0; i < l->count; i++) {
		struct lifetime *x = &l->list[i];
		struct block_info f = block_info_of(c, x);

		if (x->category == CATEGORY_TEMPORARIES && f.alloc_span && !f.free_span &&
		    f.alloc_span->phase == PHASE_BACKWARD && f.backward_end == c->span_count &&
		    alike(&parameters, x->alloc.bytes))
			x->category = CATEGORY_GRADIENTS;
	}
	free(parameters.list);
}

void classify(struct lifetimes *l, const struct block_setting *in)
{
	struct block_context c;

	block_context_init(&c, l, in);
	for (size_t i = 0; i < l->count; i++) {
		struct block_info f = block_info_of(&c, &l->list[i]);

		l->list[i].category = (uint8_t)category_of(&c, &f);
	}
	find_untrained(&c, l);
	find_gradients(&c, l);
	block_context_release(&c);
}
