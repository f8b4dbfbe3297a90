#include "metrics/metrics_calls.h"

#include "util/order.h"

#include <stdlib.h>

#define HOLDS_MUCH 4 /* a part of what the earlier call holds */

/* A line of the model's code, and a stack in which it allocated blocks. */
struct line_of_model {
	uint64_t model;
	uint32_t stack;
};

struct lines_of_model {
	struct line_of_model *list;
	size_t count;
};

static int by_model(const void *a, const void *b)
{
	const struct line_of_model *x = a, *y = b;

	return ORDER(x->model, y->model);
}

/* The lines of the model that allocated blocks when this stack's caller called it. */
static struct lines_of_model lines_of(const struct device_pass *d, const struct tables *t,
				      uint32_t stack)
{
	uint32_t caller = tables_stack_info(t, stack)->caller_hash;
	struct lines_of_model l = { .list = xcalloc(t->stack_count, sizeof(*l.list)) };

	for (uint32_t i = 1; i < t->stack_count; i++) {
		const struct stack_info *s = tables_stack_info(t, i);

		if (s->model_hash && s->caller_hash == caller && d->stacks[i].blocks)
			l.list[l.count++] = (struct line_of_model){ s->model_hash, i };
	}
	if (l.count)
		qsort(l.list, l.count, sizeof(*l.list), by_model);
	return l;
}

/*
 * Did lines that the later call runs too allocate most of the blocks that the earlier call keeps,
 * and does the later call free its own? A line runs under no_grad() in the later call if that call
 * alone frees its blocks before a backward pass.
 */
static int drops_most(const struct device_pass *d, const struct tables *t,
		      const struct live_passes *p)
{
	struct lines_of_model first = lines_of(d, t, p->first_stack),
			      again = lines_of(d, t, p->again_stack);
	bytes dropped = 0, both = 0;

	for (size_t i = 0; i < first.count && again.count; i++) {
		const struct stack_levels *x = &d->stacks[first.list[i].stack];
		const struct line_of_model *y = bsearch(&first.list[i], again.list, again.count,
							sizeof(*again.list), by_model);

		if (!y || x->dropped)
			continue;
		add(&both, x->live);
		add(&dropped, d->stacks[y->stack].dropped ? x->live : 0);
	}
	free(first.list);
	free(again.list);
	return dropped > both / 2;
}

/* Live blocks of the earlier calls, of stacks whose blocks of the steps before were all freed in a
 * forward pass: no backward pass has used what they keep. */
static bytes unused(const struct device_pass *d, const struct tables *t,
		    const struct live_passes *p)
{
	bytes sum = 0;

	for (uint32_t i = 1; i < t->stack_count; i++) {
		const struct stack_info *s = tables_stack_info(t, i);
		const struct stack_levels *x = &d->stacks[i];

		if (s->model_hash && passes_called_again(p, s->caller_hash) && x->before &&
		    x->freed && x->dropped == x->freed)
			add(&sum, x->live);
	}
	return sum;
}

/* Has a stack held two blocks at once, in this step or another? */
static int holds_several(const struct stack_levels *l)
{
	return l->held >= 2 * l->now || (l->before && l->held_before >= 2 * l->before);
}

static int by_code(const void *a, const void *b)
{
	const struct line_of_model *x = a, *y = b;

	return x->model != y->model ? ORDER(x->model, y->model) : ORDER(x->stack, y->stack);
}

/* Do two lines call the same code of the model in training, of which one drops at once what the
 * other keeps for the backward pass? That one calls a second model: an average, or a target. */
static int calls_two_models(const struct device_pass *d, const struct tables *t,
			    const struct live_passes *p)
{
	struct lines_of_model l = { .list = xcalloc(t->stack_count, sizeof(*l.list)) };
	int found = 0;

	for (uint32_t i = 1; i < t->stack_count; i++) {
		const struct stack_info *s = tables_stack_info(t, i);

		if (s->model_hash && d->stacks[i].freed &&
		    !(s->flags & (STACK_EVALUATION | STACK_NO_GRAD)) &&
		    !evaluation_names_are_of(&d->trained_names, t, i, s->tags))
			l.list[l.count++] = (struct line_of_model){ s->model_hash, i };
	}
	if (l.count)
		qsort(l.list, l.count, sizeof(*l.list), by_code);
	for (size_t i = 0, k; i < l.count && !found; i = k) {
		int drops = 0, keeps = 0;

		for (k = i; k < l.count && l.list[k].model == l.list[i].model; k++) {
			const struct stack_levels *x = &d->stacks[l.list[k].stack];

			drops |= x->dropped == x->freed &&
				 !passes_called_again(
					 p, tables_stack_info(t, l.list[k].stack)->caller_hash);
			keeps |= !x->dropped;
		}
		found = drops && keeps;
	}
	free(l.list);
	return found;
}

static int by_hash(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return ORDER(*x, *y);
}

/* The lines that called the model where a backward pass has freed blocks of it, so that it has used
 * them: their hashes, sorted. The caller frees the result. */
static uint32_t *used_callers(const struct device_pass *d, const struct tables *t, size_t *count)
{
	uint32_t *list = xcalloc(t->stack_count + 1, sizeof(*list));

	*count = 0;
	for (uint32_t i = 1; i < t->stack_count; i++) {
		const struct stack_info *s = tables_stack_info(t, i);

		if (s->model_hash && d->stacks[i].freed > d->stacks[i].dropped &&
		    callers_has(&d->trained, s->caller_hash))
			list[(*count)++] = s->caller_hash;
	}
	if (*count)
		qsort(list, *count, sizeof(*list), by_hash);
	return list;
}

bytes metrics_never_used(const struct device_pass *d, const struct tables *t,
			 const struct surviving_block *left, size_t count)
{
	size_t used_count;
	uint32_t *used = used_callers(d, t, &used_count);
	bytes sum = 0;

	for (size_t i = 0; used_count && i < count; i++) {
		const struct stack_info *s = tables_stack_info(t, left[i].stack);

		if (left[i].age && s->model_hash &&
		    !bsearch(&s->caller_hash, used, used_count, sizeof(*used), by_hash))
			add(&sum, left[i].size);
	}
	free(used);
	return sum;
}

/*
 * Live blocks of lines that hold several layers' outputs, of more lines than one, and whose blocks
 * of the steps before were all freed in their forward pass. A graph that no backward pass goes
 * through looks so; without a graph, only the last of several layers is kept, and a cache of all.
 */
static void find_unused_layers(const struct device_pass *d, const struct tables *t)
{
	for (uint32_t i = 1; i < t->stack_count; i++) {
		const struct stack_levels *x = &d->stacks[i];
		uint32_t flags = tables_stack_info(t, i)->flags;

		if (!(flags & STACK_MODULE) || hint_is_cache(stack_hint(flags)) ||
		    flags & (STACK_EVALUATION | STACK_NO_GRAD | STACK_INIT) || !x->before ||
		    !x->freed || x->dropped != x->freed || x->held_before < 2 * x->before ||
		    x->live < 2 * x->now)
			continue;
		add(&d->m->unused_layers, x->live);
		d->m->unused_lines++;
	}
}

void metrics_compare_calls(const struct device_pass *d, const struct tables *t,
			   const struct live_passes *p)
{
	const struct stack_levels *first, *again;

	d->m->called_twice = calls_two_models(d, t, p);
	find_unused_layers(d, t);
	if (!p->again || p->first_stack >= t->stack_count || p->again_stack >= t->stack_count)
		return;
	first = &d->stacks[p->first_stack];
	again = &d->stacks[p->again_stack];
	d->m->again_kept = again->blocks && holds_several(again);
	/* A call that holds much, of several layers, has a graph of its own, even if it drops what
	 * a frozen base does not need. Else: layers of one line, whose blocks the later call never
	 * held together. */
	d->m->again_freed = !(d->m->again_kept && p->newest - p->again >= p->again / HOLDS_MUCH) &&
			    ((again->freed && !d->m->again_kept && holds_several(first)) ||
			     drops_most(d, t, p));
	d->m->again_unused = unused(d, t, p);
}

void metrics_count_calls(const struct device_pass *d)
{
	const struct spans *all = &d->device->spans;
	uint32_t newest = 0;

	for (size_t i = d->span + 1; i-- > 0 && i < all->count;) {
		const struct span *s = &all->list[i];

		if (s->phase == PHASE_BACKWARD || s->phase == PHASE_OPTIMIZER)
			break;
		if (!activity_is_call(s->activity))
			continue;
		newest = d->m->run_calls++ ? newest : s->caller;
		d->m->line_calls += s->caller == newest;
	}
}
