/* The search: dimension by dimension, each with the values that divide what it splits. */
#include "model/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/read.h"

#define MOST_LISTED 200000 /* discarded layouts one by one; beyond, they are counted */
#define MOST_DIVISORS 2048 /* of numbers up to 10^9: 1344 */
#define GPUS_OF_A_NODE 8

struct search {
	struct plan *plan;
	struct config scratch;
	struct layout now;
	int counting; /* inside what the system cannot express: only how many there are */
	int64_t counted;
	int64_t estimated;
	struct err refusal; /* the first */
};

static struct layout *append(struct layouts *list, const struct layout *l)
{
	list->at = grow(list->at, list->count, &list->room, sizeof(*list->at));
	list->at[list->count] = *l;
	return &list->at[list->count++];
}

__attribute__((format(printf, 3, 4))) static int discard(struct search *s, enum discard why,
							 const char *format, ...)
{
	struct plan *plan = s->plan;
	struct layout *kept;
	va_list args;

	if (s->counting)
		return 0;
	plan->discarded_counts[why]++;
	if (plan->discarded.count >= MOST_LISTED)
		return 0;
	kept = append(&plan->discarded, &s->now);
	kept->why = why;
	kept->count = 1;
	va_start(args, format);
	kept->reason = xvasprintf(format, args);
	va_end(args);
	return 0;
}

static int64_t value_or(const struct config *c, enum config_field f, int64_t value,
			int64_t otherwise)
{
	return config_has(c, f) ? value : otherwise;
}

#define CONFIG_OR(c, name, otherwise) value_or(c, CONFIG_##name, (c)->name, otherwise)

/* ---- what divides ---- */

/* 1 if the dimension's size may be used; else the layout is discarded with the reason. */
static int divides(struct search *s, enum dimension dim, enum config_field f, int64_t value,
		   int64_t times)
{
	int64_t size = s->now.size[dim];

	if (value % (size * times) == 0)
		return 1;
	return discard(s, DISCARD_DIVIDES, "%s %lld does not divide %s %lld%s",
		       dimensions[dim].label, (long long)size, config_name(f), (long long)value,
		       times > 1 ? " into two equal parts a rank" : "");
}

static int tensor_divides(struct search *s)
{
	const struct config *c = s->plan->config;
	const struct {
		enum config_field field;
		int64_t value;
	} split[] = {
		{ CONFIG_num_attention_heads, c->num_attention_heads },
		{ CONFIG_num_query_groups, c->num_query_groups },
		{ CONFIG_ffn_hidden_size, c->ffn_hidden_size },
		{ CONFIG_hidden_size, c->hidden_size },
		{ CONFIG_seq_length, c->seq_length },
	};

	for (size_t i = 0; i < ARRAY_SIZE(split); i++)
		if (config_has(c, split[i].field) &&
		    !divides(s, DIM_TP, split[i].field, split[i].value, 1))
			return 0;
	return 1;
}

static int pipeline_divides(struct search *s)
{
	const struct config *c = s->plan->config;

	if (s->now.size[DIM_PP] > c->num_layers)
		return discard(s, DISCARD_DIVIDES, "pipeline size %lld: there are %lld layers",
			       (long long)s->now.size[DIM_PP], (long long)c->num_layers);
	return divides(s, DIM_PP, CONFIG_num_layers, c->num_layers, 1);
}

static int context_divides(struct search *s)
{
	const struct config *c = s->plan->config;
	int64_t t = s->now.size[DIM_TP], size = s->now.size[DIM_CP];

	/* Causal attention is balanced by giving each rank two parts. */
	if (size > 1 && !divides(s, DIM_CP, CONFIG_seq_length, c->seq_length, 2))
		return 0;
	if (size == 1 || c->seq_length / size % t == 0)
		return 1;
	return discard(s, DISCARD_DIVIDES,
		       "tensor size %lld does not divide the %lld tokens of a rank", (long long)t,
		       (long long)(c->seq_length / size));
}

static int data_divides(struct search *s)
{
	const struct config *c = s->plan->config;

	return !config_has(c, CONFIG_global_batch_size) ||
	       divides(s, DIM_DP, CONFIG_global_batch_size, c->global_batch_size, 1);
}

/* Experts are spread over the ranks of a stage: tensor, context and data parallel together. */
static int experts_divide(struct search *s)
{
	const int64_t *size = s->now.size;
	int64_t ranks = size[DIM_TP] * size[DIM_CP] * size[DIM_DP];
	int64_t each = CONFIG_OR(s->plan->config, expert_tensor_parallel_size, size[DIM_TP]);

	if (size[DIM_EP] == 1 || ranks % (size[DIM_EP] * each) == 0)
		return 1;
	return discard(s, DISCARD_DIVIDES,
		       "expert size %lld x %lld does not divide the %lld ranks of a stage",
		       (long long)size[DIM_EP], (long long)each, (long long)ranks);
}

static int micro_batch_divides(struct search *s)
{
	const int64_t *size = s->now.size;

	if (size[DIM_VPP] <= 1 || s->now.micro_batches % size[DIM_PP] == 0)
		return 1;
	return discard(
		s, DISCARD_DIVIDES,
		"pipeline size %lld does not divide %lld micro-batches, which interleaved stages need",
		(long long)size[DIM_PP], (long long)s->now.micro_batches);
}

/* ---- the values of a dimension ---- */

static size_t divisors(int64_t n, int64_t *list)
{
	size_t count = 0, half;

	for (int64_t i = 1; i * i <= n && count < MOST_DIVISORS / 2; i++)
		if (n % i == 0)
			list[count++] = i;
	half = count;
	for (size_t i = half; i--;)
		if (list[i] * list[i] != n)
			list[count++] = n / list[i];
	return count;
}

/* What the dimension's sizes divide. */
static int64_t splits(const struct search *s, enum dimension dim)
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
		return CONFIG_OR(c, num_experts, 0) > 1 ? c->num_experts : 1;
	case DIM_MBS:
		return c->global_batch_size / size[DIM_DP];
	default:
		BUG("dimension");
	}
}

static int is_sized(const struct search *s, enum dimension dim)
{
	return (s->plan->system->space.sizes & BIT(dim)) != 0;
}

static size_t values(const struct search *s, enum dimension dim, int64_t *list)
{
	/* Where two fit alike the first is kept: ZeRO-1 costs no more communication than none. */
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

/* Has the system a formula? */
static int expresses(const struct search *s, enum dimension dim, int64_t value)
{
	const struct space *space = &s->plan->system->space;

	if (dim == DIM_RECOMPUTE)
		return (space->recompute & BIT(value)) != 0;
	if (dim == DIM_ZERO)
		return (space->zero & BIT(value)) != 0;
	return value <= 1 || is_sized(s, dim);
}

/* ---- a layout ---- */

static void set_size(struct config *c, enum config_field f, int64_t *now, int64_t value)
{
	struct err e = { 0 };

	if (value == UNSET)
		config_unset(c, f);
	else if (!config_has(c, f) || *now != value)
		config_set_int(c, f, value, "plan", &e);
}

#define SET(c, name, value) set_size(c, CONFIG_##name, &(c)->name, value)

static void set_recompute(struct search *s, int64_t how)
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

static void set_sizes(struct search *s)
{
	struct config *c = &s->scratch;
	const int64_t *size = s->now.size;

	SET(c, tensor_model_parallel_size, size[DIM_TP]);
	SET(c, pipeline_model_parallel_size, size[DIM_PP]);
	SET(c, context_parallel_size, size[DIM_CP]);
	SET(c, data_parallel_size, size[DIM_DP]);
	SET(c, virtual_pipeline_model_parallel_size, size[DIM_VPP] > 1 ? size[DIM_VPP] : UNSET);
	SET(c, expert_model_parallel_size, size[DIM_EP] > 1 ? size[DIM_EP] : UNSET);
	SET(c, micro_batch_size, size[DIM_MBS]);
	SET(c, num_microbatches, s->now.micro_batches);
	SET(c, zero_stage, size[DIM_ZERO]);
	set_recompute(s, size[DIM_RECOMPUTE]);
}

/* The colour, with the margin that was asked for instead of 20 %. */
static enum fit fit(const struct plan *plan, wide total)
{
	if (100 * total <= (100 - plan->margin) * plan->memory)
		return FIT_GREEN;
	return total <= plan->memory ? FIT_YELLOW : FIT_RED;
}

/* With sequence parallelism beside tensor parallelism, or without where the source has formulas for
 * that alone. -1: the system refuses. */
static int estimate_layout(struct search *s, struct estimate *made, struct err *e)
{
	for (int sequence = s->now.size[DIM_TP] > 1;; sequence = 0) {
		s->scratch.sequence_parallel = s->now.sequence_parallel = sequence;
		if (estimate_make(made, s->plan->system, &s->scratch, DETAIL_STAGES, e) < 0)
			return -1;
		if (!made->beyond || !sequence)
			return 0;
		estimate_release(made);
	}
}

static void keep(struct search *s, const struct estimate *made)
{
	struct layout *l = append(&s->plan->fitting, &s->now);

	l->stage_count = made->stage_count ? made->stage_count : 1;
	l->stages = xcalloc(l->stage_count, sizeof(*l->stages));
	l->stages[0] = made->total;
	for (size_t i = 0; i < made->stage_count; i++)
		l->stages[i] = made->stages[i].total;
}

static void judge(struct search *s)
{
	struct plan *plan = s->plan;
	struct layout *l = &s->now;
	struct err refusal = { 0 };
	struct estimate made;

	if (s->counting) {
		s->counted++;
		return;
	}
	set_sizes(s);
	if (estimate_layout(s, &made, &refusal) < 0) {
		if (!s->refusal.text[0])
			s->refusal = refusal;
		discard(s, DISCARD_REFUSED, "%s", refusal.text);
		estimate_release(&made);
		return;
	}
	s->estimated++;
	l->total = estimate_most(&made);
	l->fit = fit(plan, l->total);
	/* Document 003, section 4.2.1; v chunks a stage wait a v-th of it. */
	l->bubble = l->size[DIM_PP] == 1 ? 0
					 : (double)(l->size[DIM_PP] - 1) /
						   (double)(l->micro_batches * l->size[DIM_VPP]);
	if (made.beyond)
		discard(s, DISCARD_REFUSED, "%s", made.beyond);
	else if (l->fit == FIT_RED)
		discard(s, DISCARD_MEMORY, "needs %.2f GiB, the GPU has %.2f",
			(double)l->total / (double)(1 << 30),
			(double)plan->memory / (double)(1 << 30));
	else
		keep(s, &made);
	estimate_release(&made);
}

/* ---- the search ---- */

static void descend(struct search *s, enum dimension dim);

/* One row for all layouts with this value, whatever else they are. */
static void count_inexpressible(struct search *s, enum dimension dim)
{
	struct layouts *list = &s->plan->discarded;
	struct layout only = { .why = DISCARD_INEXPRESSIBLE, .micro_batches = UNSET };
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
	append(list, &only);
}

static int is_allowed(struct search *s, enum dimension dim)
{
	static int (*const checks[DIMENSIONS])(struct search *) = {
		[DIM_TP] = tensor_divides,       [DIM_PP] = pipeline_divides,
		[DIM_CP] = context_divides,      [DIM_DP] = data_divides,
		[DIM_MBS] = micro_batch_divides, [DIM_EP] = experts_divide,
	};
	int64_t value = s->now.size[dim], most = s->plan->most[dim];

	if (value == UNSET)
		return 1;
	if (s->plan->fix[dim] != UNSET)
		return value == s->plan->fix[dim] && (!checks[dim] || checks[dim](s));
	if (most && value > most)
		return discard(s, DISCARD_LIMIT, "%s %lld is more than %lld (see --max-%s)",
			       dimensions[dim].label, (long long)value, (long long)most,
			       dimensions[dim].name);
	return !checks[dim] || checks[dim](s);
}

static void descend(struct search *s, enum dimension dim)
{
	int64_t list[MOST_DIVISORS];
	size_t count;

	if (dim == DIMENSIONS) {
		judge(s);
		return;
	}
	count = values(s, dim, list);
	for (size_t i = 0; i < count; i++) {
		s->now.size[dim] = list[i];
		if (dim == DIM_MBS)
			s->now.micro_batches = list[i] == UNSET ? UNSET : splits(s, dim) / list[i];
		if (!is_allowed(s, dim))
			continue;
		if (s->counting || expresses(s, dim, list[i]))
			descend(s, (enum dimension)(dim + 1));
		else
			count_inexpressible(s, dim);
	}
	s->now.size[dim] = UNSET;
	s->now.micro_batches = UNSET;
}

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

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (plan->system->space.sizes & needed[i].dimension &&
		    !config_has(plan->config, needed[i].field))
			return err_set(
				e,
				"%s is missing: plan needs it (in a configuration file, or --set %s=N)",
				config_name(needed[i].field), config_name(needed[i].field));
	return 0;
}

/* What the job says of its own layout gives way to those that are tried. */
static void prepare(struct search *s, struct err *e)
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
	int64_t node = CONFIG_OR(plan->config, num_gpus_per_node, GPUS_OF_A_NODE);

	config_init(c);
	config_copy(c, plan->config);
	for (size_t i = 0; i < ARRAY_SIZE(given_up); i++)
		config_unset(c, given_up[i]);
	/* Padded for another tensor size. */
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

int plan_make(struct plan *plan, struct err *e)
{
	struct search s = { .plan = plan };

	if (check(plan, e) < 0)
		return -1;
	prepare(&s, e);
	descend(&s, DIM_TP);
	config_release(&s.scratch);
	plan_rank(&plan->fitting);
	if (!s.estimated && s.refusal.text[0])
		return err_set(e, "%s", s.refusal.text);
	return 0;
}
