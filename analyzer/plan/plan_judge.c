#include "plan/plan_judge.h"

#include "readers/native.h"
#include "plan/plan_bound.h"
#include "plan/plan_layouts.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

#define GIB ((double)(1 << 30))

void plan_time(const struct plan_search *s, struct plan_layout *l)
{
	struct step_layout of = { .micro_batches = (double)l->micro_batches,
				  .sequence_parallel = l->sequence_parallel };

	for (size_t i = 0; i < DIMENSIONS; i++)
		of.size[i] = (double)l->size[i];
	l->time = step_time(&s->job, &of);
}

/* ---- one layout ---- */

static void set_size(struct config *c, enum config_field f, int64_t *now, int64_t value)
{
	struct err e = { 0 };

	if (value == UNSET)
		config_unset(c, f);
	else if (!config_has(c, f) || *now != value)
		config_set_int(c, f, value, "plan", &e);
}

#define SET(c, name, value) set_size(c, CONFIG_##name, &(c)->name, value)

static void set_recompute(struct plan_search *s, int64_t how)
{
	struct config *c = &s->scratch;
	struct err e = { 0 };

	if (config_has(c, CONFIG_recompute_granularity)
		    ? !strcmp(c->recompute_granularity, recompute_names[how])
		    : how == RECOMPUTE_NONE)
		return;
	config_set(c, "recompute_granularity", recompute_names[how], "plan", &e);
	if (how != RECOMPUTE_FULL)
		return;
	if (!config_has(c, CONFIG_recompute_method))
		config_set(c, "recompute_method", "uniform", "plan", &e);
	if (!config_has(c, CONFIG_recompute_num_layers))
		config_set_int(c, CONFIG_recompute_num_layers, 1, "plan", &e);
}

static void set_sizes(struct plan_search *s, const struct plan_layout *l)
{
	struct config *c = &s->scratch;
	const int64_t *size = l->size;

	SET(c, tensor_model_parallel_size, size[DIM_TP]);
	SET(c, pipeline_model_parallel_size, size[DIM_PP]);
	SET(c, context_parallel_size, size[DIM_CP]);
	SET(c, data_parallel_size, size[DIM_DP]);
	SET(c, virtual_pipeline_model_parallel_size, size[DIM_VPP] > 1 ? size[DIM_VPP] : UNSET);
	SET(c, expert_model_parallel_size, size[DIM_EP] > 1 ? size[DIM_EP] : UNSET);
	SET(c, micro_batch_size, size[DIM_MBS]);
	SET(c, num_microbatches, l->micro_batches);
	SET(c, zero_stage, size[DIM_ZERO]);
	set_recompute(s, size[DIM_RECOMPUTE]);
}

/* The colour, with the margin of --memory-margin instead of 20 %. */
static enum fit fit(const struct plan *plan, const struct estimate *made)
{
	wide needs = estimate_device(made);
	int lost = estimate_out_of_memory(made);

	if (!lost && 100 * needs <= (100 - plan->margin) * plan->memory)
		return FIT_GREEN;
	return !lost && estimate_most(made) <= plan->memory ? FIT_YELLOW : FIT_RED;
}

/* Estimates with sequence parallelism if there is tensor parallelism; without it if the source has
 * no formula for both. -1: the system rejects the layout. */
static int estimate_with(struct plan_search *s, struct plan_layout *l, int detail,
			 struct estimate *made, struct err *e)
{
	for (int sequence = l->size[DIM_TP] > 1;; sequence = 0) {
		s->scratch.sequence_parallel = l->sequence_parallel = sequence;
		if (estimate_make(made, s->plan->system, &s->scratch, detail, e) < 0)
			return -1;
		if (!made->beyond || !sequence)
			return 0;
		estimate_release(made);
	}
}

static void take_stages(struct plan_layout *l, const struct estimate *made)
{
	l->stage_count = made->stage_count ? made->stage_count : 1;
	l->stages = xcalloc(l->stage_count, sizeof(*l->stages));
	l->stages[0] = made->total;
	for (size_t i = 0; i < made->stage_count; i++)
		l->stages[i] = made->stages[i].total;
}

/* Puts the stages that were not run before the last one. */
static void add_between(struct plan_layout *l, const struct estimate *made)
{
	size_t count = l->stage_count + made->stage_count, at = l->stage_count - 1;
	wide *stages = xcalloc(count, sizeof(*stages));

	memcpy(stages, l->stages, at * sizeof(*stages));
	for (size_t i = 0; i < made->stage_count; i++)
		stages[at + i] = made->stages[i].total;
	stages[count - 1] = l->stages[at];
	free(l->stages);
	l->stages = stages;
	l->stage_count = count;
}

void plan_list_stages(struct plan_search *s)
{
	struct plan *plan = s->plan;
	struct err refusal = { 0 };

	if (!plan->lists_stages || !plan->system->is_run)
		return;
	for (size_t i = 0; i < plan->fitting.count; i++) {
		struct plan_layout *l = &plan->fitting.at[i];
		struct estimate made;

		if ((int64_t)l->stage_count == l->size[DIM_PP])
			continue;
		set_sizes(s, l);
		s->scratch.sequence_parallel = l->sequence_parallel;
		if (!estimate_make(&made, plan->system, &s->scratch, DETAIL_BETWEEN, &refusal))
			add_between(l, &made);
		estimate_release(&made);
	}
}

static void estimate_candidate(struct plan_search *s, struct plan_layout *l)
{
	struct plan *plan = s->plan;
	struct err refusal = { 0 };
	struct estimate made;

	l->is_judged = 1;
	set_sizes(s, l);
	if (estimate_with(s, l, plan->system->is_run ? DETAIL_ENDS : DETAIL_STAGES, &made,
			  &refusal) < 0) {
		if (!s->refusal.text[0])
			s->refusal = refusal;
		l->why = DISCARD_REFUSED;
		l->reason = xasprintf("%s", refusal.text);
		estimate_release(&made);
		return;
	}
	s->estimated++;
	l->total = estimate_most(&made);
	if (made.only_states)
		plan_keep_states(s, l, l->total);
	l->fit = fit(plan, &made);
	if (made.beyond) {
		l->why = DISCARD_REFUSED;
		l->reason = xasprintf("%s", made.beyond);
	} else if (l->fit == FIT_RED) {
		l->why = DISCARD_MEMORY;
		l->reason = xasprintf(
			"needs %s%.2f GiB, the GPU has %.2f", made.only_states ? "more than " : "",
			(double)estimate_device(&made) / GIB, (double)plan->memory / GIB);
	} else {
		take_stages(l, &made);
	}
	estimate_release(&made);
}

/* ---- what need not be estimated ---- */

static int compare_without(const struct plan_layout *x, const struct plan_layout *y,
			   enum dimension without)
{
	int by = 0;

	for (size_t i = 0; i < DIMENSIONS && !by; i++)
		if (i != without)
			by = ORDER(x->size[i], y->size[i]);
	return by;
}

/* The same layouts with rising micro-batches come one after another. */
static int by_micro_batch(const void *a, const void *b)
{
	const struct plan_layout *x = *(const struct plan_layout *const *)a;
	const struct plan_layout *y = *(const struct plan_layout *const *)b;
	int by = compare_without(x, y, DIM_MBS);

	return by ? by : ORDER(x->size[DIM_MBS], y->size[DIM_MBS]);
}

static int by_chunks(const void *a, const void *b)
{
	const struct plan_layout *x = *(const struct plan_layout *const *)a;
	const struct plan_layout *y = *(const struct plan_layout *const *)b;
	int by = compare_without(x, y, DIM_VPP);

	return by ? by : ORDER(x->size[DIM_VPP], y->size[DIM_VPP]);
}

/* Points each candidate to the same layout with the next smaller micro-batch, and to the one
 * without chunks. */
static void join_siblings(struct plan_layouts *list)
{
	struct plan_layout **by = xcalloc(list->count + 1, sizeof(*by)), *first = NULL;

	for (size_t i = 0; i < list->count; i++)
		by[i] = &list->at[i];
	qsort(by, list->count, sizeof(*by), by_micro_batch);
	for (size_t i = 1; i < list->count; i++)
		if (!compare_without(by[i - 1], by[i], DIM_MBS))
			by[i]->smaller = by[i - 1];
	qsort(by, list->count, sizeof(*by), by_chunks);
	for (size_t i = 0; i < list->count; i++) {
		if (!first || compare_without(first, by[i], DIM_VPP))
			first = by[i]->size[DIM_VPP] == 1 ? by[i] : NULL;
		else
			by[i]->plain = first;
	}
	free(by);
}

#define MAX_SIBLINGS 2048 /* divisors of a number */

/* A layout that differs from `l` by a smaller micro-batch alone (a sibling) and does not fit, or
 * NULL: memory rises with the micro-batch. Estimates the middle one of the siblings that are not
 * estimated yet, until none is left between one that fits and `l`. */
static const struct plan_layout *smaller_misfit(struct plan_search *s, struct plan_layout *l)
{
	struct plan_layout *falling[MAX_SIBLINGS];
	size_t count = 0;

	/* The siblings between `l` and the first one that is known to fit. */
	for (struct plan_layout *x = l->smaller; x && count < MAX_SIBLINGS; x = x->smaller) {
		if (x->is_judged && x->why == DISCARD_MEMORY)
			return x;
		if (x->is_judged)
			break;
		falling[count++] = x;
	}
	while (count > 0) {
		struct plan_layout *middle = falling[count / 2];

		estimate_candidate(s, middle);
		if (middle->why == DISCARD_MEMORY)
			return middle;
		if (middle->why)
			return NULL;
		count /= 2;
	}
	return NULL;
}

/* Discards `l` for its memory without an estimate; the message says why it is known. */
static void discard(struct plan_layout *l, char *reason)
{
	l->is_judged = 1;
	l->why = DISCARD_MEMORY;
	l->reason = reason;
}

/* Estimates `l` unless a bound or a sibling shows that it does not fit: chunks only add
 * micro-batches in flight, so a stage without them comes first. */
static void judge(struct plan_search *s, struct plan_layout *l)
{
	double least = plan_least_bytes(s, l), memory = (double)s->plan->memory;
	const struct plan_layout *x;

	if (least > memory) {
		discard(l, xasprintf("needs more than %.2f GiB, the GPU has %.2f", least / GIB,
				     memory / GIB));
		return;
	}
	if (l->plain && !l->plain->is_judged)
		judge(s, l->plain);
	if (l->plain && l->plain->why == DISCARD_MEMORY) {
		discard(l, xasprintf("as without chunks, which %s", l->plain->reason));
		return;
	}
	x = smaller_misfit(s, l);
	if (x)
		discard(l, xasprintf("needs more than with micro-batch %lld, which %s",
				     (long long)x->size[DIM_MBS], x->reason));
	else
		estimate_candidate(s, l);
}

/* ---- all layouts ---- */

/* The candidate stays: its siblings ask for its reason. */
static void keep(struct plan *plan, struct plan_layout *l)
{
	struct plan_layout kept = *l;

	kept.smaller = kept.plain = NULL;
	l->stages = NULL;
	if (!l->why) {
		plan_layouts_append(&plan->fitting, &kept);
		return;
	}
	kept.reason = xasprintf("%s", l->reason);
	plan_layouts_discard(plan, &kept);
}

void plan_judge(struct plan_search *s)
{
	struct plan *plan = s->plan;
	struct plan_layouts *list = &s->candidates;
	/* --all shows a number for each layout. */
	int is_run = plan->system->is_run && plan->enough;
	size_t green = 0;

	plan_sort(list, plan->order);
	if (is_run)
		join_siblings(list);
	for (size_t i = 0; i < list->count; i++) {
		struct plan_layout *l = &list->at[i];

		if (is_run && green >= plan->enough) {
			plan->not_judged++;
			continue;
		}
		if (plan->progress)
			plan->progress(plan, i, list->count);
		if (!l->is_judged && is_run)
			judge(s, l);
		else if (!l->is_judged)
			estimate_candidate(s, l);
		green += !l->why && l->fit == FIT_GREEN;
		keep(plan, l);
	}
}
