
#include "patterns/hybrid_pattern.h"
#include "megatron/gdn.h"
#include "megatron/mamba.h"
#include "megatron/mla.h"
#include "megatron/moe.h"
#include "megatron/declare.h"
#include "config/parameter_count.h"

/* The projections of attention; queries, keys and values are one matrix. */
static void declare_attention(struct model_chunk *c, struct megatron_layer *l)
{
	const struct megatron_rank *r = c->rank;
	const struct hparams *s = r->s;
	int64_t queries = s->output_gate ? 2 * r->heads : r->heads;
	int64_t qkv = (queries + 2 * r->groups) * s->head;

	l->proj = declare_param(c, TERM_ATTENTION_WEIGHTS, s->hidden, r->heads * s->head, 0);
	l->proj_bias = declare_bias(c, TERM_ATTENTION_WEIGHTS, s->hidden);
	l->qkv = declare_param(c, TERM_ATTENTION_WEIGHTS, qkv, s->hidden, 0);
	l->qkv_bias = s->qkv_bias ? declare_param(c, TERM_ATTENTION_WEIGHTS, 1, qkv, 0) : NULL;
	if (s->qk_norm) {
		l->q_norm = declare_norm(c, s->head);
		l->k_norm = declare_norm(c, s->head);
	}
}

/* CrossAttention: queries of the decoder's tokens, keys and values of the encoder's. */
static void declare_cross_attention(struct model_chunk *c, struct megatron_layer *l)
{
	const struct megatron_rank *r = c->rank;
	const struct hparams *s = r->s;
	int64_t width = r->heads * s->head;

	l->cross.before = declare_norm(c, s->hidden);
	l->cross.proj = declare_param(c, TERM_ATTENTION_WEIGHTS, s->hidden, width, 0);
	l->cross.proj_bias = declare_bias(c, TERM_ATTENTION_WEIGHTS, s->hidden);
	l->cross.q = declare_param(c, TERM_ATTENTION_WEIGHTS, width, s->hidden, 0);
	l->cross.q_bias = declare_bias(c, TERM_ATTENTION_WEIGHTS, width);
	l->cross.kv = declare_param(c, TERM_ATTENTION_WEIGHTS, 2 * width, s->hidden, 0);
	l->cross.kv_bias = declare_bias(c, TERM_ATTENTION_WEIGHTS, 2 * width);
}

/* `linear`: a gated delta net takes the place of attention. */
static void declare_attention_part(struct model_chunk *c, struct megatron_layer *l, int linear)
{
	const struct hparams *s = c->rank->s;

	l->before_attention = declare_norm(c, s->hidden);
	if (linear)
		gdn_declare(c, l);
	else if (s->latent.kv_rank)
		mla_declare(c, l);
	else
		declare_attention(c, l);
}

static void declare_dense(struct model_chunk *c, struct megatron_layer *l)
{
	const struct megatron_rank *r = c->rank;
	const struct hparams *s = r->s;
	int64_t up = r->ffn * (s->gated ? 2 : 1);

	l->up = declare_param(c, TERM_MLP_WEIGHTS, up, s->hidden, 0);
	l->up_bias = declare_bias(c, TERM_MLP_WEIGHTS, up);
	l->down = declare_param(c, TERM_MLP_WEIGHTS, s->hidden, r->ffn, 0);
	l->down_bias = declare_bias(c, TERM_MLP_WEIGHTS, s->hidden);
}

void declare_feed_forward(struct model_chunk *c, struct megatron_layer *l)
{
	l->chunk = c;
	if (c->rank->s->transformer_engine)
		l->before_mlp = declare_norm(c, c->rank->s->hidden);
	declare_dense(c, l);
}

static void declare_mlp_part(struct model_chunk *c, struct megatron_layer *l, int moe)
{
	l->before_mlp = declare_norm(c, c->rank->s->hidden);
	if (moe)
		moe_declare(c, l);
	else
		declare_dense(c, l);
}

void declare_hybrid_layer(struct model_chunk *c, struct megatron_layer *l, char kind)
{
	l->chunk = c;
	l->kind = kind;
	if (kind == 'M')
		mamba_declare(c, l);
	else if (kind == '*')
		declare_attention_part(c, l, 0);
	else
		declare_mlp_part(c, l, kind == 'E');
}

void declare_layer(struct model_chunk *c, struct megatron_layer *l, int64_t number, int attends)
{
	const struct hparams *s = c->rank->s;

	if (s->pattern) {
		declare_hybrid_layer(c, l, hybrid_layer_kind(s->pattern, number));
		return;
	}
	l->chunk = c;
	declare_attention_part(c, l, config_linear_layer(s->config, number));
	if (attends)
		declare_cross_attention(c, l);
	declare_mlp_part(c, l, config_moe_layer(s->config, number));
}
