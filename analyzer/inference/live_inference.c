#include "inference/live_inference.h"

#include "attribution/activity.h"
#include "attribution/attribution.h"
#include "attribution/evaluation.h"
#include "attribution/frames.h"
#include "attribution/workspace.h"
#include "inference/call_sizes.h"
#include "inference/live_cache.h"
#include "util/order.h"

#include <stdlib.h>

#define MIN_RISES 4       /* of a cache: fewer may be chance */
#define MIN_RESULTS 4     /* blocks that outlive their calls: fewer may belong to one call */
#define MIN_OWN_RESULTS 3 /* the same of code that runs between calls */
#define MANY_RESULTS 8    /* blocks of one module that stay, at least half of all that it made */
#define LOOP_STACKS 3     /* of the job's own loop: fewer may be results */
#define MAX_TRIES 8       /* of such a line: blocks for each one that stays */
#define MIN_STACKS 3      /* of the model, that show whether it keeps a graph */
#define CACHE_STACKS 4    /* keys, values, and their scales if they are quantised */
#define MIN_GRAPH 16      /* blocks of a graph: fewer may be results */
#define MIN_ALLOCS 32     /* blocks of the model; fewer show nothing */
#define MAX_LEFT 50       /* under no_grad, at most the 50th part of the allocated bytes is live */
#define DROPPED 2 /* graphs without a backward pass: one may be a trial before the training */

/* Does the trace show the training of a model? */
static int trains(const struct spans *spans)
{
	return spans_have(spans, ACTIVITY_BACKWARD) || spans_have(spans, ACTIVITY_RECOMPUTE) ||
	       spans_have(spans, ACTIVITY_OPTIMIZER) || spans_have(spans, ACTIVITY_ZERO_GRAD);
}

static const struct stack_info *info_of(const struct tables *t, size_t stack)
{
	return tables_stack_info(t, (uint32_t)stack);
}

/* Does some code compute a loss, or checkpoint activations? Then the job may be about to train. */
static int prepares_training(const struct tables *t, const struct history *h)
{
	for (size_t i = 1; i < t->stack_count; i++)
		if (h->stacks[i].allocs &&
		    (info_of(t, i)->flags & STACK_LOSS ||
		     info_of(t, i)->tags & (TAGGED(RECOMPUTE) | TAGGED(TRAINER))))
			return 1;
	return 0;
}

/* Graphs that the job's own code freed, without a backward pass: calls of the model that left at
 * least a fifth of their blocks, and code behind them that freed most of these. */
static unsigned count_dropped(const struct spans *spans)
{
	uint32_t left = 0;
	unsigned dropped = 0;

	for (size_t i = 0; i < spans->count && spans_have(spans, ACTIVITY_MODEL); i++) {
		const struct span *s = &spans->list[i];

		if (s->activity == ACTIVITY_MODEL && s->allocs)
			left = s->allocs > s->frees && (s->allocs - s->frees) > s->allocs / 5
				       ? s->allocs - s->frees
				       : 0;
		else if (s->activity == ACTIVITY_MAIN && left >= MIN_GRAPH &&
			 s->frees >= left / 4 * 3 && s->allocs < s->frees / 4) {
			dropped++;
			left = 0;
		}
	}
	return dropped;
}

/* Calls of the model that other code allocated between; fewer than three may be one job's several
 * models: 0. */
static uint32_t count_model_spans(const struct spans *spans)
{
	uint32_t calls = 0;

	for (size_t i = 0; i < spans->count; i++)
		calls += spans->list[i].activity == ACTIVITY_MODEL && spans->list[i].allocs;
	return calls >= 3 ? calls : 0;
}

/* All calls of the model are within torch.no_grad(), as the frames show. */
static int is_all_evaluation(const struct spans *spans)
{
	return spans_have(spans, ACTIVITY_EVALUATION) && !spans_have(spans, ACTIVITY_MODEL);
}

/* What the model has allocated so far. */
static bytes allocated_of_model(const struct history *h, const struct tables *t)
{
	bytes sum = 0;

	for (size_t i = 1; i < h->stack_count; i++)
		if (stack_is_of_model(t, i))
			sum = bytes_add(sum, h->stacks[i].bytes);
	return sum;
}

/*
 * Does the model free its blocks? A forward pass keeps the outputs of its layers only if a
 * backward pass follows: 9 % and more of its bytes, against 0.3 % without gradients
 * (metrics_need.c). The cache, the stack with the most bytes, which may be results, and the newest
 * call, which goes on, do not count; `calls` of the model have one result each, or two. `period`:
 * as of period_of(). 0: unknown.
 */
static int frees_all(const struct lifetimes *l, const struct history *h, const struct tables *t,
		     uint32_t calls, bytes period)
{
	const bytes newest = period ? h->clock - period : INT64_MAX;
	bytes *by_stack = xcalloc(h->stack_count, sizeof(*by_stack));
	bytes live = 0, most = 0;
	uint64_t allocs = 0;

	for (size_t i = 0; i < l->count; i++) {
		uint32_t stack = l->list[i].alloc.stack;

		if (!stack || stack >= h->stack_count || !stack_is_of_model(t, stack) ||
		    l->list[i].category == CATEGORY_KV_CACHE ||
		    l->list[i].category == CATEGORY_WORKSPACES)
			continue;
		if (history_clock(h, l->list[i].alloc.time_ns) > newest)
			continue;
		by_stack[stack] = bytes_add(by_stack[stack], l->list[i].alloc.bytes);
		live = bytes_add(live, l->list[i].alloc.bytes);
		if (!calls || h->stacks[stack].live / 2 <= calls)
			most = larger_of(most, by_stack[stack]);
	}
	for (size_t i = 1; i < h->stack_count; i++)
		allocs += stack_is_of_model(t, i) ? h->stacks[i].allocs : 0;
	free(by_stack);
	return allocs >= MIN_ALLOCS && live - most <= allocated_of_model(h, t) / MAX_LEFT;
}

/* Stacks of the model that allocated several times; of those, the ones with several blocks at a
 * time. */
struct kept_stacks {
	unsigned stacks, kept;
};

static struct kept_stacks count_kept(const struct history *h, const struct tables *t)
{
	struct kept_stacks n = { 0 };

	for (size_t i = 1; i < h->stack_count; i++)
		if (h->stacks[i].allocs >= 3 && stack_is_of_model(t, i) &&
		    !hint_is_cache(stack_hint(info_of(t, i)->flags))) {
			n.stacks++;
			n.kept += h->stacks[i].most >= 3;
		}
	return n;
}

/*
 * The time between calls of the model, on the clock of bytes: the longest mean distance between
 * blocks of one of its stacks. 0 (unknown) if a tenth of the stacks allocated less than three
 * times: then the distances may be those between layers.
 */
static bytes period_of(const struct history *h, const struct tables *t)
{
	bytes longest = 0;
	unsigned stacks = 0, few = 0;

	for (size_t i = 1; i < h->stack_count; i++) {
		const struct stack_history *s = &h->stacks[i];
		bytes mean;

		if (!s->allocs || !stack_is_of_model(t, i))
			continue;
		stacks++;
		few += s->allocs < 3;
		if (s->allocs < 3)
			continue;
		mean = (s->last_clock - s->first_clock) / (bytes)(s->allocs - 1);
		longest = mean > longest ? mean : longest;
	}
	return few > stacks / 10 ? 0 : longest;
}

/*
 * How often the job called the model, if that shows: the stack that the model allocates from first,
 * if others, of its layers, allocate more often. Its blocks must be spread evenly over the time: a
 * stack of several blocks at the begin of one call is none that begins calls. 0: unknown.
 */
static uint32_t calls_of(const struct history *h, const struct tables *t)
{
	const struct stack_history *first = NULL;
	uint32_t most = 0;
	bytes gap;

	for (size_t i = 1; i < h->stack_count; i++) {
		const struct stack_history *s = &h->stacks[i];

		if (!s->allocs || !stack_is_of_model(t, i))
			continue;
		most = s->allocs > most ? s->allocs : most;
		if (!first || s->first_clock < first->first_clock)
			first = s;
	}
	if (!first || first->allocs < 2 || most / 2 < first->allocs)
		return 0;
	gap = (first->last_clock - first->first_clock) / (bytes)(first->allocs - 1);
	return h->clock - first->last_clock <= gap + gap / 4 ? first->allocs : 0;
}

/* Has the stack replaced its blocks, call by call, by larger ones, and were several live all the
 * time? A block that a call allocates for itself is freed at the end of the call. Blocks above 1
 * MiB may keep a rest of their segment, so that slow growth shows in their sizes only later:
 * code of attention is enough then. */
static int grows(const struct stack_history *s, const struct stack_info *p)
{
	return s->live >= 2 && s->least >= 2 && s->rises >= MIN_RISES &&
	       s->allocs / s->live >= MIN_RISES &&
	       ((s->rises > s->changes / 2 && s->last > s->series_first) ||
		p->tags & TAGGED(ATTENTION));
}

/*
 * cuBLAS's workspace: PyTorch allocates one for each thread and stream when it first multiplies
 * there, and it stays. A single block of such a size is one, if its line has allocated since.
 */
static void find_workspace(struct lifetimes *l, const struct history *h, const struct tables *t)
{
	struct workspace_sizes sizes = workspace_sizes_of(t);
	struct lifetime *found = NULL;

	for (size_t i = 0; i < l->count; i++) {
		struct lifetime *x = &l->list[i];

		if (x->alloc.stack >= h->stack_count || !stack_is_of_model(t, x->alloc.stack) ||
		    !workspace_sizes_have(&sizes, x->alloc.bytes))
			continue;
		if (found)
			return;
		found = x;
	}
	if (found &&
	    history_clock(h, found->alloc.time_ns) < h->stacks[found->alloc.stack].last_clock)
		found->category = CATEGORY_WORKSPACES;
}

void inference_find_categories(struct lifetimes *l, const struct history *h,
			       const struct spans *spans, const struct tables *t)
{
	unsigned char *growing;
	unsigned n = 0;

	if (!h || trains(spans))
		return;
	find_workspace(l, h, t);
	growing = xcalloc(t->stack_count, 1);
	for (size_t i = 1; i < t->stack_count && i < h->stack_count; i++)
		if (grows(&h->stacks[i], info_of(t, i)) &&
		    !(info_of(t, i)->flags & (STACK_INIT | STACK_LOADING)) &&
		    !hint_is_cache(stack_hint(info_of(t, i)->flags))) {
			growing[i] = 1;
			n++;
		}
	/* In a graph that is kept, every stack grows with the input. */
	for (size_t i = 0; i < l->count && n && n <= CACHE_STACKS; i++)
		if (l->list[i].alloc.stack < t->stack_count && growing[l->list[i].alloc.stack] &&
		    l->list[i].category != CATEGORY_PARAMETERS)
			l->list[i].category = CATEGORY_KV_CACHE;
	free(growing);
}

static int by_stack_and_clock(const void *a, const void *b)
{
	const struct live_block *x = a, *y = b;

	return x->stack != y->stack ? ORDER(x->stack, y->stack) : ORDER(x->clock, y->clock);
}

/* The blocks that calls of the model have made, of all categories that no set-up has. */
static struct live_block *collect(const struct lifetimes *l, const struct history *h, size_t *count)
{
	struct live_block *list = xcalloc(l->count + 1, sizeof(*list));

	*count = 0;
	for (size_t i = 0; i < l->count; i++) {
		const struct lifetime *x = &l->list[i];

		if (!x->alloc.stack || x->alloc.stack >= h->stack_count ||
		    x->category == CATEGORY_PARAMETERS || x->category == CATEGORY_WORKSPACES ||
		    x->category == CATEGORY_COMMUNICATION)
			continue;
		list[(*count)++] = (struct live_block){
			.stack = x->alloc.stack,
			.clock = history_clock(h, x->alloc.time_ns),
			.size = x->alloc.bytes,
			.is_cache = x->category == CATEGORY_KV_CACHE,
		};
	}
	if (*count)
		qsort(list, *count, sizeof(*list), by_stack_and_clock);
	return list;
}

/* Calls of the model in which a stack made the blocks that stay: they lie apart. A line of which
 * half of its many blocks stay has results, however fast its calls are; one that is no module's, if
 * it made them over longer than a call. */
static int are_results(const struct stack_history *s, size_t n, uint32_t calls, uint32_t least,
		       int is_long)
{
	if (is_long && n >= MANY_RESULTS && s->allocs <= 2 * n)
		return 1;
	return calls >= least;
}

/* Blocks of one stack that stay from call to call: each was made in a call of its own. */
static void add_results(struct live_inference *r, const struct history *h, const struct tables *t,
			const struct live_block *b, size_t n, bytes period)
{
	bytes sum = 0;
	uint32_t calls = 1;
	int is_model = stack_is_of_model(t, b->stack);

	for (size_t i = 0; i < n; i++) {
		calls += i && b[i].clock - b[i - 1].clock > period / 2;
		sum = bytes_add(sum, b[i].size);
	}
	if (!are_results(&h->stacks[b->stack], n, calls, is_model ? MIN_RESULTS : MIN_OWN_RESULTS,
			 is_model || b[n - 1].clock - b->clock > period) ||
	    sum <= r->results)
		return;
	r->results = sum;
	r->results_blocks = (uint32_t)n;
	r->results_stack = b->stack;
}

/*
 * Do lines of the job's own code keep what they compute around a small model, round by round, as
 * the steps of a simulation do for a backward pass through all of them? `list`: sorted by stack.
 */
static int is_own_loop(const struct live_block *list, size_t count, const struct history *h,
		       const struct tables *t)
{
	unsigned stacks = 0;
	bytes sum = 0;

	for (size_t i = 0, k; i < count; i += k) {
		bytes of_stack = 0;

		for (k = 0; i + k < count && list[i + k].stack == list[i].stack; k++)
			of_stack = bytes_add(of_stack, list[i + k].size);
		if (k < MANY_RESULTS || h->stacks[list[i].stack].allocs > MAX_TRIES * k ||
		    stack_is_of_model(t, list[i].stack))
			continue;
		stacks++;
		sum = bytes_add(sum, of_stack);
	}
	return stacks >= LOOP_STACKS && sum > allocated_of_model(h, t) / 2;
}

/* Does transformers' code keep a cache from call to call? No training has one of fixed size. */
static int has_cache(const struct history *h, const struct tables *t)
{
	for (size_t i = 1; i < h->stack_count; i++) {
		enum block_hint hint = stack_hint(info_of(t, i)->flags);
		const struct series *s = &h->stacks[i].longest;

		if ((hint == HINT_STATIC_CACHE && h->stacks[i].allocs) ||
		    (hint == HINT_KV_CACHE && s->replaced && series_replaces(s) &&
		     s->last > s->first && series_calls(s) >= MIN_RISES))
			return 1;
	}
	return 0;
}

/* Does the job, as a whole, call its model again and again, and keep no graph? The moment may be of
 * the first call, and say nothing. */
static int only_calls(const struct lifetimes *l, const struct history *whole,
		      const struct spans *spans, const struct tables *t)
{
	struct kept_stacks n = count_kept(whole, t);

	return has_cache(whole, t) ||
	       (period_of(whole, t) && n.stacks >= MIN_STACKS && 5 * n.kept <= 2 * n.stacks &&
		frees_all(l, whole, t, count_model_spans(spans), 0));
}

struct live_inference inference_live(const struct lifetimes *l, const struct history *h,
				     const struct history *whole, const struct spans *spans,
				     const struct tables *t)
{
	struct live_inference r = { 0 };
	struct kept_stacks n;
	struct live_block *list;
	int is_evaluation;
	unsigned dropped;
	bytes period;
	size_t count;

	if (!h || trains(spans) || prepares_training(t, h))
		return r;
	n = count_kept(h, t);
	dropped = count_dropped(spans);
	is_evaluation = is_all_evaluation(spans);
	period = period_of(h, t);
	r.graphs_dropped = dropped;
	if (!is_evaluation)
		r.keeps_graph =
			n.stacks >= MIN_STACKS ? 5 * n.kept > 2 * n.stacks : dropped >= DROPPED;
	list = collect(l, h, &count);
	for (size_t i = 0, k; i < count; i += k) {
		for (k = 1; i + k < count && list[i + k].stack == list[i].stack; k++)
			;
		if (list[i].is_cache)
			live_cache_add(
				&r, h, &list[i], k, period,
				cache_is_of_one_call(whole ? whole : h, t, list[i].stack, k));
		else if (period && !r.keeps_graph)
			add_results(&r, h, t, &list[i], k, period);
		if (!list[i].is_cache && stack_is_of_model(t, list[i].stack)) {
			r.layers = k > r.layers ? (uint32_t)k : r.layers;
			for (size_t j = 0; j < k; j++)
				r.activations = bytes_add(r.activations, list[i + j].size);
		}
	}
	r.is_inference =
		r.cache_token || is_evaluation || dropped >= DROPPED ||
		(period && !r.keeps_graph && frees_all(l, h, t, count_model_spans(spans), period) &&
		 !is_own_loop(list, count, h, t)) ||
		(whole && !r.keeps_graph && !is_own_loop(list, count, h, t) &&
		 only_calls(l, whole, spans, t));
	free(list);
	r.is_small_call = is_small_call(h, t);
	r.calls = calls_of(h, t);
	if (!r.calls)
		r.calls = count_model_spans(spans);
	return r.is_inference || (r.keeps_graph && r.calls) ? r : (struct live_inference){ 0 };
}
