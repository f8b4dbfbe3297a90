#include "families/plain.h"

#include "families/plain_codes.h"
#include "families/plain_modules.h"
#include "families/train.h"

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

int plain_is_eager(const char *type)
{
	const struct plain_code *code = code_of(type);

	return code && code->eager;
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
	const struct loop_model parts = { &g->w, &g->loop, plain_batch, g->code->forward,
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
	g.rotary = (int64_t)((double)s->head * VALUE_OR(s->config, rotary_percent, 1));
	train(m, s, &(struct trained_model){ &g.w, make, loaded, micro_batch }, &g);
	free(g.layers);
}

static void check_layers(const struct hparams *s, struct inputs *in)
{
	if (s->heads * s->head != s->hidden)
		input_reject(in, CONFIG_kv_channels, "hidden_size / num_attention_heads");
	if (s->rms_norm || !s->norm_bias)
		input_reject(in, CONFIG_normalization, "LayerNorm with a bias");
	if (s->gated)
		input_reject(in, CONFIG_swiglu, "false: the feed-forward network has no gate");
}

static int check(const struct hparams *s, struct inputs *in)
{
	const struct plain_code *code = code_of(s->config->model_type);

	if (!code)
		BUG("a model type of another family");
	wrapper_check(s, in);
	if (s->wrapper == ZERO3)
		input_reject(in, CONFIG_zero_stage,
			     "at most 2 under DeepSpeed: this model's ZeRO-3 is not modelled yet");
	if (s->wrapper == FSDP1)
		input_reject(in, CONFIG_fsdp_version, "2: this model is not modelled yet under 1");
	if (s->tp * s->pp * s->cp > 1)
		input_reject(in, CONFIG_tensor_model_parallel_size, "1: transformers is not split");
	if (s->groups != s->heads && !code->grouped)
		input_reject(in, CONFIG_num_query_groups, "num_attention_heads");
	if (!code->apart)
		check_layers(s, in);
	if (s->experts)
		input_reject(in, CONFIG_num_experts, "none: the model is dense");
	if (s->packed)
		input_reject(in, CONFIG_packed_sequences, "false: not modelled yet");
	if (activation_of(s) == ACTIVATION_OTHER)
		input_reject(in, CONFIG_hidden_act, "gelu, gelu_new, gelu_pytorch_tanh or relu");
	code->check(s, in);
	return in->failed ? -1 : 0;
}

const struct family_model plain_model = { check, run };
