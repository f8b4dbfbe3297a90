/* The formula: the states and the saved tensors that every Megatron-core model of plain attention
 * has; whatever depends on more options is left out. */
#include "plan/plan_bound.h"

#include "estimate/inputs.h"
#include "timing/expert_groups.h"

#include <math.h>
#include <string.h>

#define HALF 2
/* Adam in mixed precision: master weight and two moments in single precision. */
#define ADAM 12

static int is_word(const struct config *c, enum config_field f, const char *value, const char *word)
{
	return !config_has(c, f) || !strcmp(value, word);
}

/* Is a field declared that changes states or activations? A flag that is off changes nothing. */
static int has_others(const struct config *c)
{
	static const enum config_field others[] = {
		CONFIG_fp4_format,      CONFIG_fp8_format,     CONFIG_recompute_modules,
		CONFIG_offload_modules, CONFIG_mtp_num_layers, CONFIG_moe_latent_size,
		CONFIG_grad_bytes,
	};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (config_has(c, others[i]))
			return 1;
	return VALUE_OR(c, multi_latent_attention, 0) || VALUE_OR(c, fp8_param_gather, 0) ||
	       VALUE_OR(c, fp4_param_gather, 0) || VALUE_OR(c, cpu_offloading, 0) ||
	       VALUE_OR(c, optimizer_cpu_offload, 0) ||
	       VALUE_OR(c, use_precision_aware_optimizer, 0) ||
	       VALUE_OR(c, fine_grained_activation_offloading, 0);
}

/* Jobs whose states and activations are those of the formulas below. */
static int is_plain(const struct config *c)
{
	return !has_others(c) && is_word(c, CONFIG_framework, c->framework, "megatron-core") &&
	       is_word(c, CONFIG_optimizer, c->optimizer, "adam") &&
	       is_word(c, CONFIG_precision, c->precision, "bf16-mixed");
}

/* Weights, gradients of two bytes, and the optimizer's states, of one layer on average. */
static double layer_states(const struct model_sizes *m, const struct plan_layout *l)
{
	double tp = (double)l->size[DIM_TP], ep = (double)l->size[DIM_EP];
	double with = m->expert_layers / m->layers;
	double ranks = (double)(l->size[DIM_CP] * l->size[DIM_DP]);
	struct expert_groups groups = expert_groups(m, tp, ranks, ep);
	double attention = dense_weights(m) - (m->gates + 1) * m->hidden * m->ffn;
	double dense = (attention + (1 - with) * (m->gates + 1) * m->hidden * m->ffn) / tp;
	double experts = with * expert_weights(m) / ep / groups.tensor;
	int is_sharded = l->size[DIM_ZERO] == 1;

	return 2 * HALF * (dense + experts) +
	       ADAM * (dense / (is_sharded ? ranks : 1) +
		       experts / (is_sharded ? groups.same.ranks : 1));
}

/* What a layer saves for the backward pass of a micro-batch: inputs of both norms; queries, keys,
 * values and the attention's output; input and output of the activation function, which experts
 * are left out of. Recomputed, its input only. */
static double layer_saved(const struct model_sizes *m, const struct plan_layout *l,
			  const struct config *c)
{
	double tokens =
		m->tokens * (double)l->size[DIM_MBS] / (double)(l->size[DIM_CP] * l->size[DIM_TP]);
	double attention = m->head * (2 * m->heads + 2 * m->groups);
	double feed_forward = (1 - m->expert_layers / m->layers) * (m->gates + 1) * m->ffn;

	if (l->size[DIM_RECOMPUTE] != RECOMPUTE_FULL)
		return HALF * tokens * (2 * m->hidden + attention + feed_forward);
	return GIVEN(c, recompute_num_layers) && c->recompute_num_layers > 1
		       ? 0
		       : HALF * tokens * m->hidden;
}

/* ---- states that an estimate has shown ---- */

static struct plan_states states_of(const struct plan_layout *l, wide n)
{
	return (struct plan_states){ l->size[DIM_TP],
				     l->size[DIM_PP],
				     l->size[DIM_VPP],
				     l->size[DIM_EP],
				     l->size[DIM_CP] * l->size[DIM_DP],
				     l->size[DIM_ZERO],
				     n };
}

void plan_keep_states(struct plan_search *s, const struct plan_layout *l, wide n)
{
	s->states = grow(s->states, s->state_count, &s->state_room, sizeof(*s->states));
	s->states[s->state_count++] = states_of(l, n);
}

static double least_states(const struct plan_search *s, const struct plan_layout *l)
{
	struct plan_states x = states_of(l, 0);

	for (size_t i = 0; i < s->state_count; i++) {
		const struct plan_states *y = &s->states[i];

		if (x.tp == y->tp && x.pp == y->pp && x.vpp == y->vpp && x.ep == y->ep &&
		    x.ranks == y->ranks && x.zero == y->zero)
			return (double)y->bytes;
	}
	return 0;
}

/* ---- a formula ---- */

/* The first stage holds as many micro-batches as there are stages, or all of them; with chunks
 * 2 (p - 1) + (v - 1) p chunks warm it up (Megatron-core's interleaved schedule). */
static double least_formula(const struct plan_search *s, const struct plan_layout *l)
{
	const struct model_sizes *m = &s->job.model;
	double p = (double)l->size[DIM_PP], chunks = (double)l->size[DIM_VPP];
	double in_flight = fmin((double)l->micro_batches, chunks > 1 ? p + (p - 1) / chunks : p);

	if (!s->is_timed || l->size[DIM_ZERO] > 1 || !is_plain(&s->scratch))
		return 0;
	return m->layers / p * (layer_states(m, l) + in_flight * layer_saved(m, l, &s->scratch));
}

double plan_least_bytes(const struct plan_search *s, const struct plan_layout *l)
{
	return fmax(least_formula(s, l), least_states(s, l));
}
