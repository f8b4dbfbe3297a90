/* The search goes from dimension to dimension and tries every value that divides what it splits. */
#include "plan/plan_divides.h"
#include "plan/plan_judge.h"
#include "plan/plan_layouts.h"
#include "readers/native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIVISORS 2048 /* a number up to 10^9 has at most 1344 */

/* ---- the values of a dimension ---- */

static size_t divisors(int64_t n, int64_t *list)
{
	size_t count = 0, half;

	for (int64_t i = 1; i * i <= n && count < MAX_DIVISORS / 2; i++)
		if (n % i == 0)
			list[count++] = i;
	half = count;
	for (size_t i = half; i--;)
		if (list[i] * list[i] != n)
			list[count++] = n / list[i];
	return count;
}

/* The number that a dimension's size must divide. */
static int64_t splits(const struct plan_search *s, enum dimension dim)
{
	const struct config *c = s->plan->config;
	const int64_t *size = s->now.size;
	int64_t gpus = s->plan->gpus;

	switch (dim) {
	case DIM_TP:
		return gpus;
	case DIM_PP:
		return gpus / size[DIM_TP];
	case DIM_CP:
		return gpus / size[DIM_TP] / size[DIM_PP];
	case DIM_VPP:
		return size[DIM_PP] > 1 ? c->num_layers / size[DIM_PP] : 1;
	case DIM_EP:
		return VALUE_OR(c, num_experts, 0) > 1 ? c->num_experts : 1;
	case DIM_MBS:
		return c->global_batch_size / size[DIM_DP];
	default:
		BUG("dimension");
	}
}

static int is_sized(const struct plan_search *s, enum dimension dim)
{
	return (s->plan->system->space.sizes & BIT(dim)) != 0;
}

static size_t values(const struct plan_search *s, enum dimension dim, int64_t *list)
{
	/* Of two equal layouts the first is kept, so ZeRO-1 comes first: it communicates as much as
	 * no ZeRO. */
	static const int64_t recomputes[] = { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL },
			     stages[] = { 1, 0, 2, 3 };
	const int64_t *size = s->now.size;

	switch (dim) {
	case DIM_DP:
		list[0] = s->plan->gpus / size[DIM_TP] / size[DIM_PP] / size[DIM_CP];
		return 1;
	case DIM_RECOMPUTE:
		memcpy(list, recomputes, sizeof(recomputes));
		return ARRAY_SIZE(recomputes);
	case DIM_ZERO:
		memcpy(list, stages, sizeof(stages));
		return ARRAY_SIZE(stages);
	case DIM_MBS:
		list[0] = UNSET;
		return is_sized(s, DIM_MBS) ? divisors(splits(s, dim), list) : 1;
	default:
		return divisors(splits(s, dim), list);
	}
}

/* Does the system have a formula for the value? */
static int expresses(const struct plan_search *s, enum dimension dim, int64_t value)
{
	const struct space *space = &s->plan->system->space;

	if (dim == DIM_RECOMPUTE)
		return (space->recompute & BIT(value)) != 0;
	if (dim == DIM_ZERO)
		return (space->zero & BIT(value)) != 0;
	return value <= 1 || is_sized(s, dim);
}

/* ---- the search ---- */

/* Adds the present layout to those that are judged. */
static void add_candidate(struct plan_search *s)
{
	struct plan_layout *l = &s->now;

	if (s->counting) {
		s->counted++;
		return;
	}
	/* Document 003, section 4.2.1: (p - 1) / m; with v chunks on a stage a v-th of it. */
	l->bubble = l->size[DIM_PP] == 1 ? 0
					 : (double)(l->size[DIM_PP] - 1) /
						   (double)(l->micro_batches * l->size[DIM_VPP]);
	l->sequence_parallel = l->size[DIM_TP] > 1;
	plan_layouts_append(&s->candidates, l);
	if (s->is_timed)
		plan_time(s, &s->candidates.at[s->candidates.count - 1]);
}

static void descend(struct plan_search *s, enum dimension dim);

/* Adds one discarded row for all layouts with the present value of `dim`. */
static void count_inexpressible(struct plan_search *s, enum dimension dim)
{
	struct plan_layouts *list = &s->plan->discarded;
	struct plan_layout only = { .why = DISCARD_INEXPRESSIBLE, .micro_batches = UNSET };
	char which[16] = "", stage[16] = "";

	s->counting = 1;
	s->counted = 0;
	descend(s, (enum dimension)(dim + 1));
	s->counting = 0;
	if (!s->counted)
		return;
	s->plan->discarded_counts[DISCARD_INEXPRESSIBLE] += s->counted;
	for (size_t i = 0; i < DIMENSIONS; i++)
		only.size[i] = i == dim ? s->now.size[i] : UNSET;
	for (size_t i = 0; i < list->count; i++)
		if (!memcmp(list->at[i].size, only.size, sizeof(only.size)) &&
		    list->at[i].why == DISCARD_INEXPRESSIBLE) {
			list->at[i].count += s->counted;
			return;
		}
	only.count = s->counted;
	if (dim == DIM_RECOMPUTE)
		snprintf(which, sizeof(which), "%s ", recompute_names[only.size[dim]]);
	if (dim == DIM_ZERO)
		snprintf(stage, sizeof(stage), "-%d", (int)only.size[dim]);
	only.reason = xasprintf("%s has no formula for %s%s%s", s->plan->system->name, which,
				dimensions[dim].what, stage);
	plan_layouts_append(list, &only);
}

static void descend(struct plan_search *s, enum dimension dim)
{
	int64_t list[MAX_DIVISORS];
	size_t count;

	if (dim == DIMENSIONS) {
		add_candidate(s);
		return;
	}
	count = values(s, dim, list);
	for (size_t i = 0; i < count; i++) {
		s->now.size[dim] = list[i];
		if (dim == DIM_MBS)
			s->now.micro_batches = list[i] == UNSET ? UNSET : splits(s, dim) / list[i];
		if (!plan_allows(s, dim))
			continue;
		if (s->counting || expresses(s, dim, list[i]))
			descend(s, (enum dimension)(dim + 1));
		else
			count_inexpressible(s, dim);
	}
	s->now.size[dim] = UNSET;
	if (dim == DIM_MBS)
		s->now.micro_batches = UNSET;
}

/* Names all missing fields at once, and what to type. */
static int check(const struct plan *plan, struct err *e)
{
	static const struct {
		enum config_field field;
		unsigned dimension;
	} needed[] = {
		{ CONFIG_num_layers, BIT(DIM_PP) },
		{ CONFIG_hidden_size, BIT(DIM_TP) },
		{ CONFIG_num_attention_heads, BIT(DIM_TP) },
		{ CONFIG_seq_length, BIT(DIM_CP) | BIT(DIM_MBS) },
		{ CONFIG_global_batch_size, BIT(DIM_MBS) },
	};
	struct buf names = { 0 }, options = { 0 };
	size_t count = 0;
	int status = 0;

	if (GIVEN(plan->config, hybrid_layer_pattern))
		return err_set(e, "plan has no times of hybrid models (hybrid_layer_pattern) yet");
	if (GIVEN(plan->config, experimental_attention_variant))
		return err_set(e, "plan has no times of gated delta nets "
				  "(experimental_attention_variant) yet");

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		const char *name = config_name(needed[i].field);

		if (!(plan->system->space.sizes & needed[i].dimension) ||
		    config_has(plan->config, needed[i].field))
			continue;
		buf_addf(&names, "%s%s", count++ ? ", " : "", name);
		buf_addf(&options, " --set %s=N", name);
	}
	if (count)
		status = err_set(e, "%s %s missing: plan needs %s; add%s", names.text,
				 count > 1 ? "are" : "is", count > 1 ? "them" : "it", options.text);
	buf_release(&names);
	buf_release(&options);
	return status;
}

/* Unsets the job's own layout, since the search tries others. */
static void prepare(struct plan_search *s, struct err *e)
{
	static const enum config_field given_up[] = {
		CONFIG_world_size,
		CONFIG_num_microbatches,
		CONFIG_gradient_accumulation_steps,
		CONFIG_use_distributed_optimizer,
		CONFIG_fsdp,
		CONFIG_use_megatron_fsdp,
		CONFIG_use_torch_fsdp2,
		CONFIG_data_parallel_sharding_strategy,
		CONFIG_recompute_granularity,
		CONFIG_strategy,
		CONFIG_num_layers_per_virtual_pipeline_stage,
		CONFIG_decoder_first_pipeline_num_layers,
		CONFIG_decoder_last_pipeline_num_layers,
		CONFIG_pipeline_model_parallel_layout,
	};
	struct plan *plan = s->plan;
	struct config *c = &s->scratch;
	int64_t node = VALUE_OR(plan->config, num_gpus_per_node, GPUS_OF_A_NODE);

	config_init(c);
	config_copy(c, plan->config);
	for (size_t i = 0; i < ARRAY_SIZE(given_up); i++)
		config_unset(c, given_up[i]);
	/* Derived from another tensor-parallel size. */
	if (config_is_derived(c, CONFIG_padded_vocab_size))
		config_unset(c, CONFIG_padded_vocab_size);
	config_set(c, "sequence_parallel", "true", "plan", e);
	if (!plan->most[DIM_TP])
		plan->most[DIM_TP] = (int)node;
	node = plan->gpus % node ? plan->gpus : node;
	config_set_int(c, CONFIG_num_gpus_per_node, node, "plan", e);
	config_set_int(c, CONFIG_num_nodes, plan->gpus / node, "plan", e);
	for (size_t i = 0; i < DIMENSIONS; i++)
		s->now.size[i] = UNSET;
	s->now.micro_batches = UNSET;
}

/* Discards with a reason each value of --fix that no layout can have, if no layout was tried at
 * all. */
static void name_unmet(struct plan_search *s)
{
	for (size_t i = 0; i < DIMENSIONS; i++) {
		s->now.size[i] = s->plan->fix[i];
		if (s->plan->fix[i] != UNSET && !(s->met & BIT(i)))
			plan_discard(s, DISCARD_DIVIDES,
				     "%s %lld (--fix) divides nothing that it could",
				     dimensions[i].label, (long long)s->plan->fix[i]);
		s->now.size[i] = UNSET;
	}
}

/* The time depends on micro-batches: a system without them plans states only. */
static int space_is_timed(const struct space *space)
{
	return (space->sizes & BIT(DIM_MBS)) != 0;
}

static void assume_masks(struct plan_search *s, struct err *e)
{
	struct config *c = &s->scratch;

	if (!s->plan->system->builds_masks || GIVEN(c, eod_mask_loss) ||
	    GIVEN(c, create_attention_mask_in_dataloader))
		return;
	config_set(c, "eod_mask_loss", "true", "plan", e);
	s->plan->assumes_masks = 1;
}

int plan_make(struct plan *plan, struct err *e)
{
	struct plan_search s = { .plan = plan };

	if (check(plan, e) < 0)
		return -1;
	prepare(&s, e);
	assume_masks(&s, e);
	s.is_timed = space_is_timed(&plan->system->space) && step_job_read(&s.job, &s.scratch);
	if (!s.is_timed)
		plan->order = ORDER_DOCUMENT;
	descend(&s, DIM_TP);
	plan_judge(&s);
	if (!plan->fitting.count && !plan->discarded.count)
		name_unmet(&s);
	plan_rank(&plan->fitting, plan->order);
	plan_list_stages(&s);
	plan_layouts_release(&s.candidates);
	free(s.states);
	config_release(&s.scratch);
	if (!s.estimated && !plan->discarded_counts[DISCARD_MEMORY] && s.refusal.text[0])
		return err_set(e, "%s", s.refusal.text);
	return 0;
}
