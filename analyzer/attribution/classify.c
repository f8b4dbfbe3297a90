#include "attribution/classify.h"

#include "attribution/corrections.h"
#include "attribution/evaluation.h"

#include <stdlib.h>

/* Live blocks of one stack that were allocated over so many calls of the model are a collection of
 * the job's, not the inputs of a step. Training may read several micro-batches ahead. */
#define MAX_INPUTS 8
#define MAX_EVALUATED 2

/* After so many calls of the model without a backward pass, the job does not train. */
#define MIN_GENERATED 8
#define MIN_REPLACED 3 /* the same if each call replaces what the one before has left */

/* The category of a hint; `otherwise` if there is no hint. */
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
	case HINT_KV_CACHE:
	case HINT_STATIC_CACHE:
		return CATEGORY_KV_CACHE;
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

/* Is the block live for more than a step? */
static int lasts(const struct block_context *c, const struct block_info *f)
{
	uint32_t step =
		f->free_span ? f->free_span->step : c->in.spans->list[c->span_count - 1].step;

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

/* Does the job call the model again and again, and no backward pass follows? */
static int is_inference(const struct block_context *c)
{
	return c->after[0] >= c->span_count && c->calls[c->span_count - 1] >= MIN_GENERATED;
}

/*
 * If backward passes keep several blocks of one size: gradients of parameters, maybe with the
 * workspace of their thread among them. It has one if the forward pass has one, and it comes with
 * the first product, before that product's result is a gradient.
 */
static int is_one_of_many(const struct block_context *c, const struct block_info *f)
{
	int size = workspace_sizes_find(&c->workspaces, f->bytes);

	return c->many_workspaces &&
	       !(c->kept_workspaces[size] == 1 && f->alloc_ns == c->first_workspace[size]);
}

/*
 * PyTorch allocates the workspaces of cuBLAS from the caching allocator: one for each thread and
 * stream, which stays, or one for each product, which is freed at once; a graph that is captured
 * keeps its own in any case. Of one stack, several that stay are tensors of that size.
 */
static int is_workspace(const struct block_context *c, const struct block_info *f)
{
	if (!workspace_sizes_have(&c->workspaces, f->bytes))
		return 0;
	if (f->is_transient)
		return 1;
	if (!c->workspaces_last && !(f->alloc_tags & TAGGED(GRAPH)))
		return 0;
	return !f->free_span && f->alloc_span->step == 1 &&
	       (f->siblings.workspaces <= 1 || !(f->alloc_flags & STACK_FRAMES)) &&
	       (f->backward_end < c->span_count || (c->one_workspace && is_inference(c))) &&
	       !(f->alloc_span->phase == PHASE_BACKWARD && is_one_of_many(c, f));
}

/* A block that the job's own code allocated is an input, unless such blocks add up over calls of
 * the model. */
static enum category of_main(const struct block_info *f, uint32_t most)
{
	return f->siblings.last_call - f->siblings.first_call >= most ? CATEGORY_OTHER
								      : CATEGORY_INPUTS;
}

/*
 * A block of a forward pass that is live for more than a step. If its stack allocated once only, it
 * is a module's buffer, or an input. Blocks that add up step after step belong to an autograd graph
 * that something still refers to, or to a collection of the job's.
 */
static enum category of_lasting(const struct block_info *f, int is_input)
{
	if (is_input)
		return of_main(f, MAX_INPUTS);
	return f->alloc_span->step > 1 || f->siblings.last_step > 1 ? CATEGORY_ACTIVATIONS
								    : CATEGORY_BUFFERS;
}

/* Without any backward pass, are the blocks of the first calls gone, and those of the last two
 * there? Each call replaces what the one before has left. */
static int replaces_earlier(const struct block_context *c, const struct block_info *f)
{
	return c->after[0] >= c->span_count && f->siblings.first_call >= MIN_REPLACED &&
	       f->siblings.last_call - f->siblings.first_call <= 1;
}

/*
 * Keys and values that the code of a cache allocated. A training job that does not switch the cache
 * off fills one too, and attention saves its tensors for the backward pass: activations. Without
 * torch.no_grad() on the stack, a job generates if no backward pass follows and it calls the model
 * again and again, or with a cache that grows.
 */
static enum category of_cache(const struct block_context *c, const struct block_info *f)
{
	if (f->alloc_flags & (STACK_NO_GRAD | STACK_EVALUATION))
		return CATEGORY_KV_CACHE;
	return is_inference(c) || replaces_earlier(c, f) ? CATEGORY_KV_CACHE : CATEGORY_ACTIVATIONS;
}

/* Was the block freed between its forward pass and the backward pass, with few others? That pass
 * needs it no more: a result of the model, of which the loss made a copy. A graph has more blocks.
 */
static int is_dropped_result(const struct block_info *f)
{
	return activity_is_backward(f->free_span->next) && f->free_span->frees <= CALL_LEAVES;
}

static enum category of_forward(const struct block_context *c, const struct block_info *f)
{
	int is_input = f->alloc_span->activity == ACTIVITY_MAIN &&
		       f->alloc_span->next != ACTIVITY_BACKWARD &&
		       f->alloc_span->next != ACTIVITY_RECOMPUTE;

	if (f->hint == HINT_KV_CACHE)
		return of_cache(c, f);
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
	if (f->free_span ? f->free_span->phase == PHASE_BACKWARD
			 : f->alloc_flags & STACK_MODULE || !block_outlives_backward(c, f))
		return CATEGORY_ACTIVATIONS;
	/* The backward pass is over, and freed the blocks that it needed. A block that is still
	 * live is a result that the job refers to, unless the backward pass was of another graph.
	 */
	if (f->alloc_flags & STACK_MODULE && block_outlives_backward(c, f) &&
	    block_is_of_unused_graph(c, f))
		return CATEGORY_ACTIVATIONS;
	/* A block of an autograd graph that no backward pass used. */
	if (f->free_span != f->alloc_span && f->backward_end > span_index(c, f->free_span) &&
	    f->alloc_flags & STACK_MODULE && !is_dropped_result(f))
		return CATEGORY_ACTIVATIONS;
	return CATEGORY_TEMPORARIES;
}

static enum category of_evaluation(const struct block_info *f)
{
	if (f->hint)
		return category_of_hint(f->hint, CATEGORY_OTHER);
	/* A loss that compares with the result of the pass saves it. */
	if (f->free_span && f->free_span->phase == PHASE_BACKWARD)
		return CATEGORY_ACTIVATIONS;
	return f->alloc_span->activity == ACTIVITY_MAIN ? of_main(f, MAX_EVALUATED)
							: CATEGORY_TEMPORARIES;
}

/* The time between a backward pass and the next forward pass is the optimizer's step, and the
 * loading of the next step's inputs. */
static enum category of_between(const struct block_context *c, const struct block_info *f)
{
	uint32_t step = c->in.spans->list[c->span_count - 1].step;
	int is_state = f->free_span ? lasts(c, f) : step > f->alloc_span->step;

	return is_state ? CATEGORY_OPTIMIZER_STATES : CATEGORY_TEMPORARIES;
}

/* Reentrant checkpointing recomputes a forward pass and then starts the engine again, under the
 * same Python frames. Blocks of that engine are of the backward pass, and no module is on their
 * stack. */
static int is_recomputed(const struct block_info *f)
{
	return f->alloc_span->activity == ACTIVITY_RECOMPUTE &&
	       !(f->alloc_flags & STACK_BACKWARD && !(f->alloc_flags & STACK_MODULE));
}

static enum category of_backward(const struct block_context *c, const struct block_info *f)
{
	if (f->hint == HINT_REDUCED)
		return block_outlives_backward(c, f) ? CATEGORY_GRADIENTS : CATEGORY_COMMUNICATION;
	if (f->hint)
		return category_of_hint(f->hint, CATEGORY_OTHER);
	if (f->free_flags & STACK_ZERO_GRAD)
		return CATEGORY_GRADIENTS;
	if (is_workspace(c, f))
		return CATEGORY_WORKSPACES;
	if (f->is_between)
		return of_between(c, f);
	if (is_recomputed(f) && !(f->free_span && f->free_span == f->alloc_span))
		return CATEGORY_ACTIVATIONS;
	/* If the pipeline's schedule frees the block, or a forward pass of the same step does, it
	 * is the gradient of the stage's input, which is sent to the stage before. */
	if (f->free_span &&
	    (f->free_flags & STACK_PIPELINE ||
	     (f->free_span->phase == PHASE_FORWARD && f->free_span->step == f->alloc_span->step)))
		return CATEGORY_TEMPORARIES;
	return block_outlives_backward(c, f) ? CATEGORY_GRADIENTS : CATEGORY_TEMPORARIES;
}

static enum category of_optimizer(const struct block_context *c, const struct block_info *f)
{
	const struct span *last =
		f->free_span ? f->free_span : &c->in.spans->list[c->span_count - 1];
	int in_the_step = last->phase == PHASE_OPTIMIZER && last->step == f->alloc_span->step;

	if (f->hint)
		return category_of_hint(f->hint, CATEGORY_OTHER);
	/* The optimizer's step frees its temporaries. States are freed when the job ends. */
	if (in_the_step && (!f->free_span || f->free_flags & STACK_OPTIMIZER))
		return CATEGORY_TEMPORARIES;
	if (!f->free_span || f->alloc_flags & STACK_OPTIMIZER ||
	    last->step > f->alloc_span->step + 1)
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

void classify_beside(struct lifetimes *l, struct lifetimes *others, const struct block_setting *in)
{
	struct block_context c;

	block_context_init(&c, l, in);
	for (size_t i = 0; i < l->count; i++) {
		struct block_info f = block_info_of(&c, &l->list[i]);

		l->list[i].category = (uint8_t)category_of(&c, &f);
	}
	correct_categories(&c, l);
	for (size_t i = 0; i < others->count; i++) {
		struct block_info f = block_info_of(&c, &others->list[i]);

		others->list[i].category = (uint8_t)category_of(&c, &f);
	}
	block_context_release(&c);
}

void classify(struct lifetimes *l, const struct block_setting *in)
{
	struct lifetimes none = { 0 };

	classify_beside(l, &none, in);
}
