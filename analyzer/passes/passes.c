#include "passes/passes.h"

#include "attribution/attribution.h"
#include "passes/divide.h"
#include "util/order.h"
#include "util/size_counts.h"

#include <stdlib.h>

#define FEW_STACKS 4  /* of those of a whole pass, a part of it has fewer than one in so many */
#define MIN_OF_LINE 4 /* passes that one line called */
#define MIN_GRAPH 8   /* of a forward pass, the least part that a graph of its gradients takes */

static int by_model(const void *a, const void *b)
{
	const struct made *x = a, *y = b;

	return x->model != y->model ? ORDER(x->model, y->model) : ORDER(x->time_ns, y->time_ns);
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
 * ones: it is called twice, or a name of such a step stands above the generator's. The generator's
 * own step calls it once. A call begins with a block as large as the first one, behind smaller
 * ones. In a function that trains a discriminator, the model beside that is the generator.
 */
static bytes graph_of_generator(const struct made *list, size_t count, const struct tables *t)
{
	const stack_tags judges = TAGGED(DISCRIMINATOR) | TAGGED(DISCRIMINATOR_STEP);
	const struct made *first = NULL;
	bytes drawn = 0, in_training = 0, beside = 0;
	int calls = 0, fell = 0, judged = 0;

	for (size_t i = 0; i < count; i++) {
		const struct made *x = &list[i];
		stack_tags tags = tables_stack_info(t, x->stack)->tags;

		judged |= (tags & judges) == judges;
		if (x->model && (tags & judges) == TAGGED(DISCRIMINATOR_STEP))
			beside = bytes_add(beside, x->bytes);
		if (tags & TAGGED(GENERATOR)) {
			drawn = bytes_add(drawn, x->bytes);
			if (tags & judges)
				in_training = bytes_add(in_training, x->bytes);
		} else if (drawn && tags & judges && x->model) {
			int begins = !first || (fell && x->stack == first->stack &&
						(!x->bytes || x->bytes >= first->bytes));

			first = first ? first : x;
			calls += begins;
			fell = !begins && (fell || x->bytes <= first->bytes / 2);
		}
	}
	return calls >= 2 ? drawn : larger_of(in_training, judged ? beside : 0);
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

/* Is it only a part of a pass? The model alone began it; or it has few of the stacks of the others,
 * as a head that the job's own code calls several times. The newest pass may have just begun. */
static int is_part(const struct pass *all, size_t passes, size_t i, uint32_t most)
{
	if (!i || all[i].backwards != all[i - 1].backwards)
		return 0;
	if (i + 1 == passes && !is_part(all, passes, i - 1, most))
		return all[i].begun_by == BEGUN_BY_MODEL;
	return all[i].begun_by == BEGUN_BY_MODEL || all[i].stacks < most / FEW_STACKS;
}

/* Passes that no backward pass has followed, before another one that surely began. */
static void count_waiting(struct live_passes *live, const struct pass *all, size_t passes,
			  uint32_t over)
{
	uint32_t of_line = 0, most = 0;
	bytes sum = 0;

	for (size_t i = 0; i < passes; i++)
		most = all[i].backwards >= over && all[i].stacks > most ? all[i].stacks : most;
	for (size_t i = 0; i + 1 < passes; i++) {
		enum begun_by next = all[i + 1].begun_by;
		int is_called = next == BEGUN_BY_LINE || next == BEGUN_BY_CALL;
		bytes *to = is_called ? &live->waiting_of_line : &live->waiting;

		sum = bytes_add(is_part(all, passes, i, most) ? sum : 0, all[i].bytes);
		if (!all[i].is_repeated || all[i].backwards < over ||
		    is_part(all, passes, i + 1, most))
			continue;
		*to = bytes_add(*to, sum);
		live->waiting_count += !is_called;
		of_line += (uint32_t)is_called;
	}
	/* One line may call a model twice or three times in one pass, for pairs or triplets. */
	live->waiting_of_line = of_line >= MIN_OF_LINE ? live->waiting_of_line : 0;
	live->waiting = bytes_add(live->waiting, live->waiting_of_line);
	live->waiting_count += of_line >= MIN_OF_LINE ? of_line : 0;
}

struct live_passes passes_live(const struct lifetimes *l, const struct spans *spans,
			       const struct tables *t, uint32_t request, uint64_t at_ns)
{
	const struct span *now = spans_at(spans, at_ns);
	struct live_passes live = { 0 };
	struct backwards backwards = { .spans = spans };
	size_t count, passes;
	struct made *list = passes_collect(l, spans, t, request, at_ns, &count);
	struct pass *all = passes_divide(list, count, spans, t, &passes);
	uint32_t over = backwards_over(&backwards, at_ns);
	struct made largest = { 0 };
	bytes graph = graph_of_gradients(l, spans, t, now);
	uint32_t counted = UINT32_MAX; /* the backward passes before the last kept pass */

	live.count = (uint32_t)passes;
	live.newest = passes ? all[passes - 1].bytes : 0;
	for (size_t i = 0; i < passes; i++) {
		int is_past = is_past_passes(now) && all[i].backwards < over;

		if (!is_past && (i + 1 == passes || !all[i].is_repeated))
			continue;
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
	count_waiting(&live, all, passes, over);
	live.kept_stack = largest.stack;
	live.generator = graph_of_generator(list, count, t);
	if (passes)
		find_called_again(&live, list + all[passes - 1].first,
				  count - all[passes - 1].first);
	free(all);
	free(list);
	passes_find_left(&live.left, l, spans, t, now ? now->step : 0);
	/* The stack that leaves blocks in each step also allocated those of this step. */
	if (live.again && now && passes_has_left(l, spans, t, live.first_stack, now->step) &&
	    !passes_has_left(l, spans, t, live.again_stack, now->step)) {
		live.left.now = bytes_add(live.left.now, live.again);
		live.left.behind = bytes_add(live.left.behind, live.again);
	}
	return live;
}
