#include "passes/divide.h"

#include "attribution/attribution.h"
#include "util/order.h"

#include <stdlib.h>

/* Batches vary in length; a smaller block of one line is of another layer. */
#define MAX_SHORTER 16
/* Stacks of a call with live blocks: a recurrent cell that a loop calls has fewer. */
#define MIN_CALL_STACKS 6

static int by_time(const void *a, const void *b)
{
	const struct made *x = a, *y = b;

	return ORDER(x->time_ns, y->time_ns);
}

static int is_of_pass(const struct lifetime *l, const struct tables *t)
{
	return tables_stack_has_frames(t, l->alloc.stack) && category_is_of_pass(l->category);
}

static struct made made_of(const struct tables *t, uint64_t time_ns, uint32_t stack)
{
	const struct stack_info *p = tables_stack_info(t, stack);

	return (struct made){
		.time_ns = time_ns, .stack = stack, .model = p->model_hash, .caller = p->caller_hash
	};
}

/* The calls of models that the blocks belong to, by time. */
static void number_calls(struct made *list, size_t count, const struct spans *spans)
{
	uint32_t calls = 0;
	size_t k = 0;

	for (size_t i = 0; i < count; i++) {
		for (; k < spans->count && spans->list[k].start_ns <= list[i].time_ns; k++)
			calls += (uint32_t)activity_is_call(spans->list[k].activity);
		list[i].call = calls;
	}
}

struct made *passes_collect(const struct lifetimes *l, const struct spans *spans,
			    const struct tables *t, uint32_t request, uint64_t at_ns, size_t *count)
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
	if (tables_stack_has_frames(t, request))
		list[(*count)++] = made_of(t, at_ns, request);
	if (*count)
		qsort(list, *count, sizeof(*list), by_time);
	number_calls(list, *count, spans);
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

/* The blocks of a stack in the pass that had one last. */
struct rounds {
	uint32_t pass, count; /* pass: from 1; count: of the last block's size, one after another */
	uint32_t call;
	bytes size;
};

struct division {
	const struct tables *tables;
	struct pass *all;
	size_t count;
	struct rounds *seen; /* of each stack */
	uint32_t sure;       /* the last pass that surely began, from 1 */
	uint32_t stacks;     /* of the last call, with blocks of a graph */
};

/*
 * Does a block begin another pass? It does if its stack has one already since the last pass that
 * surely began, and other code ran in between; or if the model repeats its first block. The latter
 * may also be the first layer of several: then no other code has run more often since.
 */
static enum begun_by begins(const struct division *d, const struct made *before,
			    const struct made *now, uint32_t backwards)
{
	const struct pass *p = d->count ? &d->all[d->count - 1] : NULL;
	const struct rounds *seen = &d->seen[now->stack];

	if (!p || p->backwards != backwards)
		return BEGUN_BY_BACKWARD;
	if (seen->pass >= d->sure) {
		if (is_elsewhere(d->tables, before->stack, now->stack))
			return BEGUN_BY_CODE;
		if (is_of_line(d->tables, before->stack, now->stack))
			return BEGUN_BY_LINE;
		if (now->model && now->call != before->call && d->stacks >= MIN_CALL_STACKS)
			return p->has_loss ? BEGUN_BY_LOSS : BEGUN_BY_CALL;
	}
	if (seen->pass == d->count && now->stack == p->model && p->rounds >= 2 * seen->count &&
	    (!now->bytes || now->bytes >= seen->size / MAX_SHORTER))
		return p->has_loss ? BEGUN_BY_LOSS : BEGUN_BY_MODEL;
	return BEGUN_BY_NOTHING;
}

/* Adds a block to the newest pass. `is_same_call`: the block before is of the same call. */
static void add_block(struct division *d, const struct made *block, int is_same_call)
{
	struct pass *p = &d->all[d->count - 1];
	struct rounds *s = &d->seen[block->stack];
	uint32_t flags = tables_stack_flags(d->tables, block->stack);

	/* What the line of the call makes behind it may belong to the same call. */
	if (s->pass && s->pass < d->count && (block->model || !p->is_of_line))
		d->all[s->pass - 1].is_repeated = 1;
	p->has_loss |= (flags & STACK_LOSS) != 0;
	p->has_module |= (flags & STACK_MODULE) != 0;
	p->stacks += s->pass != d->count && block->bytes > 0;
	d->stacks = (is_same_call ? d->stacks : 0) + (s->call != block->call && block->bytes > 0);
	s->call = block->call;
	s->count = s->pass == d->count && s->size == block->bytes ? s->count + 1 : 1;
	s->pass = (uint32_t)d->count;
	s->size = block->bytes;
	p->rounds = s->count > p->rounds ? s->count : p->rounds;
	p->model = p->model || !block->model ? p->model : block->stack;
	p->bytes = bytes_add(p->bytes, block->bytes);
	if (block->bytes > p->largest.bytes)
		p->largest = *block;
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

struct pass *passes_divide(const struct made *list, size_t count, const struct spans *spans,
			   const struct tables *t, size_t *passes)
{
	struct division d = { .tables = t };
	struct backwards backwards = { .spans = spans };

	d.all = xcalloc(count + 1, sizeof(*d.all));
	d.seen = xcalloc(t->stack_count, sizeof(*d.seen));
	for (size_t i = 0; i < count; i++) {
		const struct made *before = i ? &list[i - 1] : NULL;
		uint32_t over = backwards_over(&backwards, list[i].time_ns);
		enum begun_by by = begins(&d, before, &list[i], over);

		if (by != BEGUN_BY_NOTHING) {
			d.all[d.count++] = (struct pass){
				.first = i,
				.begun_by = by,
				.backwards = over,
				.is_of_line = before && is_of_line(t, before->stack, list[i].stack),
			};
			d.sure = by != BEGUN_BY_MODEL ? (uint32_t)d.count : d.sure;
		}
		add_block(&d, &list[i], before && before->call == list[i].call);
	}
	free(d.seen);
	*passes = join(d.all, d.count);
	return d.all;
}
