#include "attribution/passes.h"

#include "attribution/attribution.h"
#include "util/order.h"
#include "util/size_counts.h"

#include <stdlib.h>

#define MAX_SHORTER                                                                              \
	16            /* batches vary in length; a smaller block of one line is of another layer \
		       */
#define MIN_OF_LINE 4 /* passes that the line of the call separates */
#define MIN_GRAPH 8   /* of a forward pass, the least part that a graph of its gradients takes */
#define MIN_LEFT (INT64_C(64) << 10) /* smaller blocks have no stack */

/* A block of the job's own code, or of the model that it calls. */
struct made {
	uint64_t time_ns;
	uint32_t stack;
	bytes bytes; /* 0 if it is not part of a graph */
	/* Hashes of the frames inside and outside of the model; 0: none are. */
	uint64_t model;
	uint32_t caller;
};

static int by_time(const void *a, const void *b)
{
	const struct made *x = a, *y = b;

	return ORDER(x->time_ns, y->time_ns);
}

static int is_of_pass(const struct lifetime *l, const struct tables *t)
{
	return tables_stack_flags(t, l->alloc.stack) & STACK_FRAMES &&
	       category_is_of_pass(l->category);
}

static struct made made_of(const struct tables *t, uint64_t time_ns, uint32_t stack)
{
	const struct stack_info *p = tables_stack_info(t, stack);

	return (struct made){
		.time_ns = time_ns, .stack = stack, .model = p->model_hash, .caller = p->caller_hash
	};
}

static struct made *collect(const struct lifetimes *l, const struct tables *t, uint32_t request,
			    uint64_t at_ns, size_t *count)
{
	struct made *list = xcalloc(l->count + 1, sizeof(*list));

	*count = 0;
	for (size_t i = 0; i < l->count; i++) {
		const struct lifetime *x = &l->list[i];
		struct made block = made_of(t, x->alloc.time_ns, x->alloc.stack);

		if (!is_of_pass(x, t))
			continue;
		/* A job's own code saves tensors for the backward pass too. */
		if (block.model || x->category == CATEGORY_ACTIVATIONS)
			block.bytes = x->alloc.bytes;
		list[(*count)++] = block;
	}
	if (tables_stack_flags(t, request) & STACK_FRAMES)
		list[(*count)++] = made_of(t, at_ns, request);
	if (*count)
		qsort(list, *count, sizeof(*list), by_time);
	return list;
}

/* The frame at a distance from the outermost one. */
static uint32_t frame_from_outside(const struct stack *p, uint32_t distance)
{
	return p->frames[p->frame_count - 1 - distance];
}

static int is_model_frame(const struct tables *t, uint32_t frame)
{
	return frame_is(t, frame, FRAME_MODULE_CALL) || frame_is(t, frame, FRAME_FORWARD);
}

/* Do the stacks differ outside of the model? */
static int is_elsewhere(const struct tables *t, uint32_t before, uint32_t now)
{
	const struct stack *a = tables_stack(t, before), *b = tables_stack(t, now);

	for (uint32_t i = 0; i < a->frame_count && i < b->frame_count; i++) {
		uint32_t x = frame_from_outside(a, i), y = frame_from_outside(b, i);

		if (x != y || is_model_frame(t, x))
			return x != y;
	}
	return 0;
}

/* Did the line that has called the model make the next block itself, as model(batch.cuda()) does?
 * It may be the batch of another call, or the labels of this one. */
static int is_of_line(const struct tables *t, uint32_t before, uint32_t now)
{
	const struct stack *a = tables_stack(t, before), *b = tables_stack(t, now);

	return !tables_stack_info(t, now)->model_hash && a->frame_count > b->frame_count &&
	       !is_elsewhere(t, before, now) &&
	       is_model_frame(t, frame_from_outside(a, b->frame_count));
}

/* A pass: the blocks of list[first], list[first + 1]... up to the next one's. */
struct pass {
	size_t first;
	uint32_t backwards; /* before its first block */
	uint32_t model;     /* the stack of the first block of the model; 0: none yet */
	uint32_t rounds;    /* the most blocks of one stack and size */
	uint32_t stacks;    /* different stacks of the graph's blocks */
	bytes bytes;
	struct made largest;
	int is_repeated; /* a later pass has a block of the same stack */
	int has_loss;    /* a loss function made a block of it */
	int has_module;  /* a module did */
	int is_of_line;  /* the line that calls the model began it */
	int is_sure;     /* code outside of the model began it, or the one before has a loss */
};

/* The blocks of a stack in the pass that had one last. */
struct rounds {
	uint32_t pass, count; /* pass: from 1; count: of the last block's size, one after another */
	bytes size;
};

/*
 * Does a block begin another pass? It does if the code outside of the model repeats itself, or if
 * the model repeats its first block. The latter may also be the first layer of several: then no
 * other code has run more often since.
 */
static int begins(const struct pass *p, uint32_t number, const struct rounds *seen,
		  const struct made *before, const struct made *now, const struct tables *t)
{
	if (seen->pass != number)
		return 0;
	return is_elsewhere(t, before->stack, now->stack) ||
	       is_of_line(t, before->stack, now->stack) ||
	       (now->stack == p->model && p->rounds >= 2 * seen->count &&
		(!now->bytes || now->bytes >= seen->size / MAX_SHORTER));
}

/* Joins a pass without calls of modules with the pass before, on whose results it works: a loss of
 * one image after another, for example. If the model has no modules at all, they stay passes. */
static size_t join(struct pass *all, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct pass *last = kept ? &all[kept - 1] : NULL;

		if (!last || all[i].has_module || !last->has_module ||
		    all[i].backwards != last->backwards) {
			all[kept++] = all[i];
			continue;
		}
		last->bytes = bytes_add(last->bytes, all[i].bytes);
		last->has_loss |= all[i].has_loss;
		last->stacks = all[i].stacks > last->stacks ? all[i].stacks : last->stacks;
		if (all[i].largest.bytes > last->largest.bytes)
			last->largest = all[i].largest;
	}
	return kept;
}

/* Divides the blocks into passes. */
static struct pass *divide(const struct made *list, size_t count, const struct spans *spans,
			   const struct tables *t, size_t *passes)
{
	struct pass *all = xcalloc(count + 1, sizeof(*all));
	struct rounds *seen = xcalloc(t->stack_count, sizeof(*seen));
	struct backwards backwards = { .spans = spans };

	*passes = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t over = backwards_over(&backwards, list[i].time_ns);
		struct pass *p = *passes ? &all[*passes - 1] : NULL;
		struct rounds *s = &seen[list[i].stack];

		if (!p || p->backwards != over ||
		    begins(p, (uint32_t)*passes, s, &list[i - 1], &list[i], t)) {
			int of_line = i && is_of_line(t, list[i - 1].stack, list[i].stack);
			int is_sure = i && ((p && p->has_loss) || of_line ||
					    is_elsewhere(t, list[i - 1].stack, list[i].stack));

			p = &all[(*passes)++];
			*p = (struct pass){ .first = i,
					    .backwards = over,
					    .is_sure = is_sure,
					    .is_of_line = of_line };
		}
		/* What the line of the call makes behind it may belong to the same call. */
		if (s->pass && s->pass < *passes && (list[i].model || !p->is_of_line))
			all[s->pass - 1].is_repeated = 1;
		p->has_loss |= (tables_stack_flags(t, list[i].stack) & STACK_LOSS) != 0;
		p->has_module |= (tables_stack_flags(t, list[i].stack) & STACK_MODULE) != 0;
		p->stacks += s->pass != *passes && list[i].bytes > 0;
		s->count = s->pass == *passes && s->size == list[i].bytes ? s->count + 1 : 1;
		s->pass = (uint32_t)*passes;
		s->size = list[i].bytes;
		p->rounds = s->count > p->rounds ? s->count : p->rounds;
		p->model = p->model || !list[i].model ? p->model : list[i].stack;
		p->bytes = bytes_add(p->bytes, list[i].bytes);
		if (list[i].bytes > p->largest.bytes)
			p->largest = list[i];
	}
	free(seen);
	*passes = join(all, *passes);
	return all;
}

static int by_model(const void *a, const void *b)
{
	const struct made *x = a, *y = b;

	return x->model != y->model ? ORDER(x->model, y->model) : by_time(a, b);
}

/* Calls of the model from one line, after which the same code of the model was called from
 * another. Sorts the blocks, which are those of one pass. */
static void find_called_again(struct live_passes *live, struct made *list, size_t count)
{
	bytes largest = -1;

	if (count)
		qsort(list, count, sizeof(*list), by_model);
	for (size_t i = 0; i + 1 < count; i++) {
		const struct made *x = &list[i], *next = &list[i + 1];

		if (!x->model || next->model != x->model || next->caller == x->caller)
			continue;
		if (live->again_caller_count < PASSES_CALLERS &&
		    !passes_called_again(live, x->caller))
			live->again_callers[live->again_caller_count++] = x->caller;
		if (x->bytes > largest) {
			largest = x->bytes;
			live->again_stack = next->stack;
			live->first_stack = x->stack;
		}
	}
	for (size_t i = 0; i < count; i++)
		if (passes_called_again(live, list[i].caller))
			live->again = bytes_add(live->again, list[i].bytes);
}

/*
 * The graph of a generator in a step of its discriminator, which judges real examples and drawn
 * ones: it is called twice, or its name stands above the generator's. The generator's own step
 * calls it once. A call begins with a block as large as the first one, behind smaller ones.
 */
static bytes graph_of_generator(const struct made *list, size_t count, const struct tables *t)
{
	const struct made *first = NULL;
	bytes drawn = 0, in_training = 0;
	int calls = 0, fell = 0;

	for (size_t i = 0; i < count; i++) {
		const struct made *x = &list[i];
		uint64_t tags = tables_stack_info(t, x->stack)->tags;

		if (tags & TAGGED(GENERATOR)) {
			drawn = bytes_add(drawn, x->bytes);
			if (tags & TAGGED(DISCRIMINATOR))
				in_training = bytes_add(in_training, x->bytes);
		} else if (drawn && tags & TAGGED(DISCRIMINATOR) && x->model) {
			int begins = !first || (fell && x->stack == first->stack &&
						(!x->bytes || x->bytes >= first->bytes));

			first = first ? first : x;
			calls += begins;
			fell = !begins && (fell || x->bytes <= first->bytes / 2);
		}
	}
	return calls >= 2 ? drawn : in_training;
}

/* A block of an earlier step that is none of what training keeps. */
static int may_be_left(const struct lifetime *l, const struct tables *t)
{
	return l->alloc.bytes >= MIN_LEFT && tables_stack_flags(t, l->alloc.stack) & STACK_FRAMES &&
	       !(tables_stack_flags(t, l->alloc.stack) & STACK_NOT_OF_A_STEP) &&
	       (category_is_of_pass(l->category) || (l->category == CATEGORY_OPTIMIZER_STATES &&
						     tables_stack_is_own_code(t, l->alloc.stack)));
}

/* Adds the blocks of one stack, in the order of time. Blocks that the job's own code allocated
 * once are data; blocks that it allocates again and again should have been freed. */
static void add_left(struct left_blocks *left, const struct spans *spans, const struct tables *t,
		     const struct lifetime *const *list, size_t count, uint32_t now)
{
	uint32_t steps = 0, last = 0, blocks = 0;
	bytes sum = 0, of_now = 0, of_step = 0, most = 0;
	int from_first = 0;

	for (size_t i = 0; i < count; i++) {
		const struct span *s = spans_at(spans, list[i]->alloc.time_ns);

		if (!s || !span_step(s))
			continue;
		from_first |= s->step == 1;
		of_step = s->step != last ? 0 : of_step;
		steps += s->step != last;
		last = s->step;
		if (s->step >= now) {
			of_now = bytes_add(of_now, list[i]->alloc.bytes);
			continue;
		}
		sum = bytes_add(sum, list[i]->alloc.bytes);
		of_step = bytes_add(of_step, list[i]->alloc.bytes);
		most = larger_of(most, of_step);
		blocks++;
	}
	if (!sum || (steps < 2 && tables_stack_is_own_code(t, list[0]->alloc.stack)))
		return;
	left->bytes = bytes_add(left->bytes, sum);
	/* Blocks after a step count as the next step's: the first step has none of them, and
	 * this step's are left from the step before, but for more than any step has left.
	 * Otherwise this step may need its own. */
	if (tables_stack_is_own_code(t, list[0]->alloc.stack)) {
		left->now = bytes_add(left->now, of_now);
		left->behind = bytes_add(left->behind, from_first ? 0 : smaller_of(of_now, most));
	}
	left->blocks += blocks;
	if (steps > left->steps)
		left->steps = steps;
	if (sum > left->most) {
		left->most = sum;
		left->stack = list[0]->alloc.stack;
	}
}

static void find_left(struct left_blocks *left, const struct lifetimes *l,
		      const struct spans *spans, const struct tables *t, uint32_t now)
{
	const struct lifetime **list = xcalloc(l->count + 1, sizeof(struct lifetime *));
	size_t count = 0;

	for (size_t i = 0; i < l->count; i++)
		if (may_be_left(&l->list[i], t))
			list[count++] = &l->list[i];
	if (count)
		qsort(list, count, sizeof(struct lifetime *), lifetime_by_stack);
	for (size_t i = 0, k; i < count; i = k) {
		for (k = i; k < count && list[k]->alloc.stack == list[i]->alloc.stack; k++)
			;
		add_left(left, spans, t, list + i, k - i, now);
	}
	free(list);
}

/* Has a stack left blocks from earlier steps? */
static int has_left(const struct lifetimes *l, const struct spans *spans, const struct tables *t,
		    uint32_t stack, uint32_t now)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct span *s = spans_at(spans, l->list[i].alloc.time_ns);

		if (l->list[i].alloc.stack == stack && may_be_left(&l->list[i], t) && s &&
		    span_step(s) && s->step < now)
			return 1;
	}
	return 0;
}

/* The span of a time, if it is of the step of the moment; else NULL. */
static const struct span *span_of_step(const struct spans *spans, const struct span *now,
				       uint64_t time_ns)
{
	const struct span *s = now ? spans_at(spans, time_ns) : NULL;

	return s && s->step == now->step ? s : NULL;
}

/* Is the backward pass of a span over at the moment? */
static int is_over(const struct span *s, const struct span *now)
{
	while (s < now && s->phase == PHASE_BACKWARD)
		s++;
	return s->phase != PHASE_BACKWARD;
}

/* The bytes that the backward passes of this step allocated beyond a gradient for each
 * parameter, and that stay after them: the graph of gradients that the job differentiates once
 * more, for a penalty on gradients or an inner loop. It needs the forward passes that it comes
 * from. */
static bytes graph_of_gradients(const struct lifetimes *l, const struct spans *spans,
				const struct tables *t, const struct span *now)
{
	struct size_counts parameters = { 0 };
	bytes sum = 0;

	for (size_t i = 0; i < l->count; i++)
		if (l->list[i].category == CATEGORY_PARAMETERS)
			size_counts_add(&parameters, l->list[i].alloc.bytes);
	size_counts_sort(&parameters);
	for (size_t i = 0; i < l->count; i++) {
		const struct lifetime *x = &l->list[i];
		const struct span *s = span_of_step(spans, now, x->alloc.time_ns);
		struct size_count *parameter;

		if (!(t->thread_flags[x->alloc.thread] & THREAD_AUTOGRAD) || !s ||
		    x->category == CATEGORY_WORKSPACES || !is_over(s, now))
			continue;
		parameter = size_counts_near(&parameters, x->alloc.bytes);
		if (parameter)
			parameter->count--;
		else
			sum = bytes_add(sum, x->alloc.bytes);
	}
	size_counts_release(&parameters);
	return sum;
}

/* In the optimizer's step, no forward pass goes on: what backward passes have followed is over. */
static int is_past_passes(const struct span *now)
{
	return now && now->activity == ACTIVITY_OPTIMIZER;
}

struct live_passes passes_live(const struct lifetimes *l, const struct spans *spans,
			       const struct tables *t, uint32_t request, uint64_t at_ns)
{
	const struct span *now = spans_at(spans, at_ns);
	struct live_passes live = { 0 };
	struct backwards backwards = { .spans = spans };
	size_t count, passes;
	struct made *list = collect(l, t, request, at_ns, &count);
	struct pass *all = divide(list, count, spans, t, &passes);
	uint32_t over = backwards_over(&backwards, at_ns);
	struct made largest = { 0 };
	bytes graph = graph_of_gradients(l, spans, t, now);
	uint32_t of_line = 0;
	uint32_t counted = UINT32_MAX; /* the backward passes before the last kept pass */

	live.count = (uint32_t)passes;
	live.newest = passes ? all[passes - 1].bytes : 0;
	for (size_t i = 0; i < passes; i++) {
		int is_past = is_past_passes(now) && all[i].backwards < over;

		if (!is_past && (i + 1 == passes || !all[i].is_repeated))
			continue;
		if (all[i].backwards >= over && all[i + 1].is_sure) {
			bytes *to = all[i + 1].is_of_line ? &live.waiting_of_line : &live.waiting;

			*to = bytes_add(*to, all[i].bytes);
			live.waiting_count += !all[i + 1].is_of_line;
			of_line += all[i + 1].is_of_line;
		}
		if (all[i].backwards >= over ||
		    (span_of_step(spans, now, list[all[i].first].time_ns) &&
		     graph >= all[i].bytes / MIN_GRAPH))
			continue;
		live.kept = bytes_add(live.kept, all[i].bytes);
		live.kept_stacks =
			all[i].stacks > live.kept_stacks ? all[i].stacks : live.kept_stacks;
		live.kept_count += all[i].backwards != counted;
		counted = all[i].backwards;
		if (all[i].largest.bytes > largest.bytes)
			largest = all[i].largest;
	}
	/* One line may call a model twice or three times in one pass, for pairs or triplets. */
	live.waiting_of_line = of_line >= MIN_OF_LINE ? live.waiting_of_line : 0;
	live.waiting = bytes_add(live.waiting, live.waiting_of_line);
	live.waiting_count += of_line >= MIN_OF_LINE ? of_line : 0;
	live.kept_stack = largest.stack;
	live.generator = graph_of_generator(list, count, t);
	if (passes)
		find_called_again(&live, list + all[passes - 1].first,
				  count - all[passes - 1].first);
	free(all);
	free(list);
	find_left(&live.left, l, spans, t, now ? now->step : 0);
	/* The stack that leaves blocks in each step also allocated those of this step. */
	if (live.again && now && has_left(l, spans, t, live.first_stack, now->step) &&
	    !has_left(l, spans, t, live.again_stack, now->step)) {
		live.left.now = bytes_add(live.left.now, live.again);
		live.left.behind = bytes_add(live.left.behind, live.again);
	}
	return live;
}
