#include "plan/plan_divides.h"
#include "plan/plan_layouts.h"

/* Returns 1 if the dimension's size divides the field's value; else discards the layout. */
static int divides(struct plan_search *s, enum dimension dim, enum config_field f, int64_t value,
		   int64_t times)
{
	int64_t size = s->now.size[dim];

	if (value % (size * times) == 0)
		return 1;
	return plan_discard(s, DISCARD_DIVIDES, "%s %lld does not divide %s %lld%s",
			    dimensions[dim].label, (long long)size, config_name(f),
			    (long long)value, times > 1 ? " into two equal parts a rank" : "");
}

static int tensor_divides(struct plan_search *s)
{
	const struct config *c = s->plan->config;
	const struct {
		enum config_field field;
		int64_t value;
		int is_split; /* 1: tensor parallelism splits it in this job */
	} split[] = {
		{ CONFIG_num_attention_heads, c->num_attention_heads, 1 },
		{ CONFIG_num_query_groups, c->num_query_groups, 1 },
		{ CONFIG_ffn_hidden_size, c->ffn_hidden_size, 1 },
		{ CONFIG_moe_ffn_hidden_size, c->moe_ffn_hidden_size,
		  !GIVEN(c, expert_tensor_parallel_size) },
		{ CONFIG_hidden_size, c->hidden_size, 1 },
		{ CONFIG_seq_length, c->seq_length, 1 },
		/* A derived size is padded anew for each layout. */
		{ CONFIG_padded_vocab_size, c->padded_vocab_size,
		  !config_is_derived(c, CONFIG_padded_vocab_size) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(split); i++)
		if (config_has(c, split[i].field) && split[i].is_split &&
		    !divides(s, DIM_TP, split[i].field, split[i].value, 1))
			return 0;
	return 1;
}

static int pipeline_divides(struct plan_search *s)
{
	const struct config *c = s->plan->config;

	if (s->now.size[DIM_PP] > c->num_layers)
		return plan_discard(s, DISCARD_DIVIDES, "pipeline size %lld: there are %lld layers",
				    (long long)s->now.size[DIM_PP], (long long)c->num_layers);
	return divides(s, DIM_PP, CONFIG_num_layers, c->num_layers, 1);
}

static int context_divides(struct plan_search *s)
{
	const struct config *c = s->plan->config;
	int64_t t = s->now.size[DIM_TP], size = s->now.size[DIM_CP];

	/* Each rank has two parts of the sequence, which balances causal attention. */
	if (size > 1 && !divides(s, DIM_CP, CONFIG_seq_length, c->seq_length, 2))
		return 0;
	if (size == 1 || c->seq_length / size % t == 0)
		return 1;
	return plan_discard(s, DISCARD_DIVIDES,
			    "tensor size %lld does not divide the %lld tokens of a rank",
			    (long long)t, (long long)(c->seq_length / size));
}

static int data_divides(struct plan_search *s)
{
	const struct config *c = s->plan->config;

	return !config_has(c, CONFIG_global_batch_size) ||
	       divides(s, DIM_DP, CONFIG_global_batch_size, c->global_batch_size, 1);
}

/* Experts are divided among all ranks of a stage: tensor, context and data parallel. */
static int experts_divide(struct plan_search *s)
{
	const int64_t *size = s->now.size;
	int64_t ranks = size[DIM_TP] * size[DIM_CP] * size[DIM_DP];
	int64_t each = VALUE_OR(s->plan->config, expert_tensor_parallel_size, size[DIM_TP]);

	if (size[DIM_EP] == 1 || ranks % (size[DIM_EP] * each) == 0)
		return 1;
	return plan_discard(s, DISCARD_DIVIDES,
			    "expert size %lld x %lld does not divide the %lld ranks of a stage",
			    (long long)size[DIM_EP], (long long)each, (long long)ranks);
}

static int micro_batch_divides(struct plan_search *s)
{
	const int64_t *size = s->now.size;

	if (size[DIM_VPP] <= 1 || s->now.micro_batches % size[DIM_PP] == 0)
		return 1;
	return plan_discard(
		s, DISCARD_DIVIDES,
		"pipeline size %lld does not divide %lld micro-batches, which interleaved stages need",
		(long long)size[DIM_PP], (long long)s->now.micro_batches);
}

int plan_allows(struct plan_search *s, enum dimension dim)
{
	static int (*const checks[DIMENSIONS])(struct plan_search *) = {
		[DIM_TP] = tensor_divides,       [DIM_PP] = pipeline_divides,
		[DIM_CP] = context_divides,      [DIM_DP] = data_divides,
		[DIM_MBS] = micro_batch_divides, [DIM_EP] = experts_divide,
	};
	int64_t value = s->now.size[dim], most = s->plan->most[dim];

	if (value == UNSET)
		return 1;
	s->met |= value == s->plan->fix[dim] ? BIT(dim) : 0;
	if (s->plan->fix[dim] != UNSET)
		return value == s->plan->fix[dim] && (!checks[dim] || checks[dim](s));
	if (most && value > most)
		return plan_discard(s, DISCARD_LIMIT, "%s %lld is more than %lld (see --max-%s)",
				    dimensions[dim].label, (long long)value, (long long)most,
				    dimensions[dim].name);
	return !checks[dim] || checks[dim](s);
}
