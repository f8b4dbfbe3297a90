#include "families/plain.h"

#include "families/plain_model.h"
#include "families/train.h"
#include "torch/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

static const struct {
	const char *type;
	const struct plain_code *code;
} rows[] = {
#define PLAIN(type, code, class) { #type, &code },
#include "families/plain.def"
#undef PLAIN
};

static const struct plain_code *code_of(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strcmp(rows[i].type, type))
			return rows[i].code;
	return NULL;
}

int plain_has(const char *type)
{
	return code_of(type) != NULL;
}

/* ---- modules ---- */

struct param *plain_weight(struct machine *m, struct plain *g, int64_t out, int64_t in,
			   enum term_id term)
{
	return module_add(m, &g->w.module, out, in, g->s->weights, term);
}

struct pair plain_pair(struct machine *m, struct plain *g, int64_t out, int64_t in, int64_t bias,
		       enum term_id term)
{
	struct pair p = { plain_weight(m, g, out, in, term), NULL };

	if (bias)
		p.bias = plain_weight(m, g, 1, bias, term);
	return p;
}

struct pair plain_norm(struct machine *m, struct plain *g)
{
	return plain_pair(m, g, 1, g->s->hidden, g->s->hidden, TERM_NORM_WEIGHTS);
}

tensor plain_normed(struct machine *m, struct plain *g, const struct pair *norm, tensor x)
{
	return layer_norm(m, x, norm->weight, norm->bias, g->s->hidden);
}

/* activations.py, NewGELUActivation: 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
 * Autocast runs pow in fp32 (autocast_mode.h), so that everything after it is in fp32 too; the first
 * half, 0.5 * x, has x's type. Saved: x in the type of pow, the tangent, and both factors. */
static tensor gelu_new(struct machine *m, tensor x)
{
	tensor half = scale(m, x), precise = m->autocast ? to(m, x, F32) : tensor_ref(x), t, out;

	t = power(m, precise);
	tensor_unref(m, &precise);
	tensor_assign(m, &t, scale(m, t));
	tensor_assign(m, &t, add(m, x, t));
	tensor_assign(m, &t, scale(m, t));
	tensor_assign(m, &t, sigmoid(m, t)); /* tanh saves its result, as sigmoid does */
	tensor_assign(m, &t, shift(m, t));
	out = mul(m, half, t);
	tensor_unref(m, &half);
	tensor_unref(m, &t);
	return out;
}

tensor plain_activated(struct machine *m, struct plain *g, tensor x)
{
	return g->activation == ACTIVATION_GELU_NEW ? gelu_new(m, x)
	       : g->activation == ACTIVATION_RELU   ? relu(m, x)
						    : gelu(m, x);
}

static tensor one_layer(struct machine *m, struct plain *g, int64_t i,
			tensor (*block)(struct machine *m, void *context, tensor input), tensor x)
{
	tensor in = wrapper_before_block(m, &g->w, i, x), out;

	out = g->s->recompute == RECOMPUTE_FULL ? checkpointed(m, block, &g->layers[i], in)
						: block(m, &g->layers[i], in);
	tensor_unref(m, &in);
	wrapper_after_block(m, &g->w, i, &out);
	return out;
}

tensor plain_layers(struct machine *m, struct plain *g,
		    tensor (*block)(struct machine *m, void *context, tensor input), tensor x)
{
	for (int64_t i = 0; i < g->s->layers; i++)
		tensor_assign(m, &x, one_layer(m, g, i, block, x));
	return x;
}

/* ---- the run ---- */

static enum activation activation_of(const struct hparams *s)
{
	static const struct {
		const char *name;
		enum activation kind;
	} known[] = {
		{ "gelu", ACTIVATION_GELU },
		{ "gelu_pytorch_tanh", ACTIVATION_GELU },
		{ "gelu_new", ACTIVATION_GELU_NEW },
		{ "relu", ACTIVATION_RELU },
	};
	const char *name = VALUE_OR(s->config, hidden_act, "");

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcmp(known[i].name, name))
			return known[i].kind;
	return ACTIVATION_OTHER;
}

static void make(struct machine *m, void *model)
{
	struct plain *g = model;

	g->layers = xcalloc((size_t)g->s->layers, sizeof(*g->layers));
	for (int64_t i = 0; i < g->s->layers; i++)
		g->layers[i].model = g;
	g->code->make(m, g);
}

static void loaded(struct machine *m, void *model)
{
	const struct plain *g = model;

	loop_loaded(m, g->s);
}

static void micro_batch(struct machine *m, void *model)
{
	struct plain *g = model;
	const struct loop_model parts = { &g->w, &g->loop, text_batch, g->code->forward,
					  g->code->release };

	loop_micro_batch(m, &parts, g);
}

static void run(struct machine *m, const struct hparams *s, int64_t stage)
{
	struct plain g = { .s = s,
			   .code = code_of(s->config->model_type),
			   .activation = activation_of(s),
			   .embedding_dropout = VALUE_OR(s->config, embedding_dropout, 0) };

	(void)stage;
	train(m, s, &(struct trained_model){ &g.w, make, loaded, micro_batch }, &g);
	free(g.layers);
}

static int check(const struct hparams *s, struct inputs *in)
{
	wrapper_check(s, in);
	if (s->wrapper == ZERO3)
		input_reject(in, CONFIG_zero_stage,
			     "at most 2 under DeepSpeed: this model's ZeRO-3 is not modelled yet");
	if (s->wrapper == FSDP1)
		input_reject(in, CONFIG_fsdp_version, "2: this model is not modelled yet under 1");
	if (s->tp * s->pp * s->cp > 1)
		input_reject(in, CONFIG_tensor_model_parallel_size, "1: transformers is not split");
	if (s->groups != s->heads)
		input_reject(in, CONFIG_num_query_groups, "num_attention_heads");
	if (s->heads * s->head != s->hidden)
		input_reject(in, CONFIG_kv_channels, "hidden_size / num_attention_heads");
	if (s->rms_norm || !s->norm_bias)
		input_reject(in, CONFIG_normalization, "LayerNorm with a bias");
	if (s->gated)
		input_reject(in, CONFIG_swiglu, "false: the feed-forward network has no gate");
	if (s->experts)
		input_reject(in, CONFIG_num_experts, "none: the model is dense");
	if (s->packed)
		input_reject(in, CONFIG_packed_sequences, "false: not modelled yet");
	if (activation_of(s) == ACTIVATION_OTHER)
		input_reject(in, CONFIG_hidden_act, "gelu, gelu_new, gelu_pytorch_tanh or relu");
	code_of(s->config->model_type)->check(s, in);
	return in->failed ? -1 : 0;
}

const struct family_model plain_model = { check, run };
