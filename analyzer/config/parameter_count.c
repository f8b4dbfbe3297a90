/*
 * The modules are those that transformers builds; the largest is document 002's "largest layer". No
 * sum overflows within the limits of limits.def; a test checks this.
 */
#include "config/parameter_count.h"

#include "patterns/hybrid_pattern.h"

#include <string.h>

#include "util/util.h"

int config_is_encoder(const char *type)
{
	static const char *const types[] = { "bert", "roberta", "xlm-roberta", "camembert" };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (!strcmp(types[i], type))
			return 1;
	return 0;
}

int config_is_t5(const char *type)
{
	return !strcmp(type, "t5") || !strcmp(type, "mt5");
}

/* Projections that transformers has in one module and other frameworks in several; norms of all
 * heads together; a norm of the embeddings; a bias of the output layer. */
enum { FUSED_QKV = 1, FUSED_GATE_UP = 2, WIDE_QK_NORM = 4, EMBEDDING_NORM = 8, HEAD_BIAS = 16 };

static const struct {
	const char *model_type;
	int fused;
} shapes[] = {
	{ "gpt2", FUSED_QKV },
	{ "gpt_neox", FUSED_QKV },
	{ "bloom", FUSED_QKV | EMBEDDING_NORM },
	{ "falcon", FUSED_QKV },
	{ "phi3", FUSED_QKV | FUSED_GATE_UP },
	{ "glm", FUSED_GATE_UP },
	{ "glm4", FUSED_GATE_UP },
	{ "olmo2", WIDE_QK_NORM },
	{ "phi", HEAD_BIAS },
};

struct count {
	const struct config *c;
	__int128 total;
	__int128 largest;
	int fused;
	int64_t h;
};

/* Counts `times` modules of so many parameters each. */
static void module(struct count *n, __int128 times, __int128 parameters)
{
	n->total += times * parameters;
	if (times > 0 && parameters > n->largest)
		n->largest = parameters;
}

static void linear(struct count *n, __int128 times, int64_t in, int64_t out, int bias)
{
	module(n, times, (__int128)in * out + (bias ? out : 0));
}

static void norm(struct count *n, __int128 times, int64_t width)
{
	const struct config *c = n->c;
	int bias = c->normalization && !strcmp(c->normalization, "LayerNorm") &&
		   !(config_has(c, CONFIG_norm_bias) && !c->norm_bias);

	module(n, times, (__int128)width * (bias ? 2 : 1));
}

static int has_expert_layers(const struct config *c)
{
	return config_has(c, CONFIG_num_experts) && c->num_experts > 0;
}

/* Is the layer marked in "[0,1,1]", the form that layer_pattern() gives? */
static int is_listed(const char *list, int64_t layer)
{
	size_t at = 1 + 2 * (size_t)layer;

	return strnlen(list, at + 1) > at && list[at] == '1';
}

/* In one pass: is_listed() for each layer would be quadratic. */
static int64_t listed_layers(const struct config *c, const char *list)
{
	int64_t n = 0;

	for (int64_t i = 0; i < c->num_layers && list[1 + i]; i++, list++)
		n += list[1 + i] == '1';
	return n;
}

static int64_t every_nth(const char *number)
{
	int64_t every = 0;

	for (; *number >= '0' && *number <= '9' && every < 1000000; number++)
		every = 10 * every + (*number - '0');
	return every;
}

int config_moe_layer(const struct config *c, int64_t layer)
{
	const char *freq = config_has(c, CONFIG_moe_layer_freq) ? c->moe_layer_freq : "1";
	int64_t every;

	if (!has_expert_layers(c))
		return 0;
	if (config_has(c, CONFIG_hybrid_layer_pattern))
		return hybrid_layer_kind(c->hybrid_layer_pattern, layer) == 'E';
	if (*freq == '[')
		return is_listed(freq, layer);
	every = every_nth(freq);
	return every > 0 && layer % every == 0;
}

static int64_t expert_layers(const struct config *c)
{
	const char *list = config_has(c, CONFIG_moe_layer_freq) ? c->moe_layer_freq : "";
	int64_t n = 0;

	if (has_expert_layers(c) && *list == '[')
		return listed_layers(c, list);
	for (int64_t i = 0; i < c->num_layers; i++)
		n += config_moe_layer(c, i);
	return n;
}

static const char *linear_layers_of(const struct config *c)
{
	if (!config_has(c, CONFIG_experimental_attention_variant) ||
	    !config_has(c, CONFIG_linear_attention_freq))
		return "1";
	return c->linear_attention_freq;
}

int config_linear_layer(const struct config *c, int64_t layer)
{
	const char *freq = linear_layers_of(c);
	int64_t every;

	if (*freq == '[')
		return is_listed(freq, layer);
	every = every_nth(freq);
	return every > 0 && (layer + 1) % every != 0;
}

static int64_t linear_layers(const struct config *c)
{
	const char *freq = linear_layers_of(c);
	int64_t every;

	if (*freq == '[')
		return listed_layers(c, freq);
	every = every_nth(freq);
	return every > 0 ? c->num_layers - c->num_layers / every : 0;
}

static int64_t or_else(const struct config *c, enum config_field f, int64_t given, int64_t other)
{
	return config_has(c, f) ? given : other;
}

#define OR_ELSE(c, name, other) or_else(c, CONFIG_##name, (c)->name, other)

static int64_t head_width(const struct config *c)
{
	return OR_ELSE(c, kv_channels, c->hidden_size / c->num_attention_heads);
}

static void attention(struct count *n, __int128 layers)
{
	const struct config *c = n->c;
	int64_t d = head_width(c), q = c->num_attention_heads * d;
	int64_t kv = OR_ELSE(c, num_query_groups, c->num_attention_heads) * d;
	int bias = c->add_bias_linear || c->add_qkv_bias;

	if (n->fused & FUSED_QKV) {
		linear(n, layers, n->h, q + 2 * kv, bias);
	} else {
		linear(n, layers, n->h, c->attention_output_gate ? 2 * q : q, bias);
		linear(n, 2 * layers, n->h, kv, bias);
	}
	linear(n, layers, q, n->h, (int)OR_ELSE(c, attention_output_bias, c->add_bias_linear));
	if (c->qk_layernorm) {
		norm(n, layers, n->fused & WIDE_QK_NORM ? q : d);
		norm(n, layers, n->fused & WIDE_QK_NORM ? kv : d);
	}
}

/* Megatron-core's GatedDeltaNet: one projection for queries, keys, values, the gate, and two
 * numbers for each head of values; a convolution over queries, keys and values; a norm of each
 * head. */
static void delta_net(struct count *n, __int128 layers)
{
	const struct config *c = n->c;
	int64_t heads = OR_ELSE(c, linear_num_value_heads, 32);
	int64_t width = OR_ELSE(c, linear_value_head_dim, 128), v = heads * width;
	int64_t qk = OR_ELSE(c, linear_num_key_heads, 16) * OR_ELSE(c, linear_key_head_dim, 128);

	if (!layers)
		return;
	linear(n, layers, n->h, 2 * qk + 2 * v + 2 * heads, 0);
	module(n, layers, (__int128)(2 * qk + v) * OR_ELSE(c, linear_conv_kernel_dim, 4));
	module(n, layers, 2 * heads);
	norm(n, layers, width);
	linear(n, layers, v, n->h, 0);
}

/* DeepSeek's attention: queries, keys and values pass through narrow projections. */
static void latent_attention(struct count *n, __int128 layers)
{
	const struct config *c = n->c;
	int64_t a = c->num_attention_heads;
	int64_t nope = OR_ELSE(c, qk_head_dim, 128), rope = OR_ELSE(c, qk_pos_emb_head_dim, 64);
	int64_t v = OR_ELSE(c, v_head_dim, 128), kv = OR_ELSE(c, kv_lora_rank, 32);
	int bias = c->add_bias_linear || c->add_qkv_bias;

	if (c->q_lora_rank > 0) {
		linear(n, layers, n->h, c->q_lora_rank, bias);
		norm(n, layers, c->q_lora_rank);
		linear(n, layers, c->q_lora_rank, a * (nope + rope), 0);
	} else {
		linear(n, layers, n->h, a * (nope + rope), 0);
	}
	linear(n, layers, n->h, kv + rope, bias);
	norm(n, layers, kv);
	linear(n, layers, kv, a * (nope + v), 0);
	linear(n, layers, a * v, n->h, (int)OR_ELSE(c, attention_output_bias, c->add_bias_linear));
}

static void feed_forward(struct count *n, __int128 layers, int64_t width)
{
	const struct config *c = n->c;
	int bias = (int)OR_ELSE(c, mlp_bias, c->add_bias_linear);

	if (c->swiglu && n->fused & FUSED_GATE_UP)
		linear(n, layers, n->h, 2 * width, bias);
	else
		linear(n, layers * (c->swiglu ? 2 : 1), n->h, width, bias);
	linear(n, layers, width, n->h, bias);
}

static void experts(struct count *n, __int128 layers, int64_t ffn)
{
	const struct config *c = n->c;
	int64_t width = OR_ELSE(c, moe_ffn_hidden_size, ffn);

	linear(n, layers, n->h, c->num_experts, 0); /* the router */
	/* transformers has the weights of all experts in one module. */
	module(n, layers, (__int128)c->num_experts * n->h * width * (c->swiglu ? 3 : 2));
	if (c->moe_shared_expert_intermediate_size > 0) {
		feed_forward(n, layers, c->moe_shared_expert_intermediate_size);
		if (c->moe_shared_expert_gate)
			linear(n, layers, n->h, 1, 0);
	}
}

static int is_megatron(const struct config *c)
{
	return c->framework && !strcmp(c->framework, "megatron-core");
}

static int learns_positions(const struct config *c)
{
	return c->position_embedding_type &&
	       !strcmp(c->position_embedding_type, "learned_absolute");
}

/* T5: each decoder layer attends twice, and each half has a norm at its end. transformers' halves
 * have a relative position bias in their first layers, Megatron-core's share learned positions, and
 * its output layer has a bias. */
static void encoder_decoder(struct count *n, int64_t vocabulary, int64_t ffn)
{
	const struct config *c = n->c;
	int64_t encoder = c->encoder_num_layers, decoder = c->num_layers;

	module(n, 1, (__int128)vocabulary * n->h);
	attention(n, encoder + 2 * (__int128)decoder);
	feed_forward(n, encoder + (__int128)decoder, ffn);
	norm(n, 2 * (__int128)encoder + 3 * (__int128)decoder + 2, n->h);
	if (learns_positions(c))
		module(n, 1, (__int128)c->max_position_embeddings * n->h);
	else
		module(n, 2,
		       (__int128)OR_ELSE(c, relative_attention_num_buckets, 32) *
			       c->num_attention_heads);
	if (is_megatron(c) && !c->untie_embeddings_and_output_weights)
		module(n, 1, vocabulary);
	if (c->untie_embeddings_and_output_weights)
		linear(n, 1, n->h, vocabulary, 0);
}

/* BERT: the norm of transformers' embeddings takes the place of the last one. The token types are
 * counted with the vocabulary's rows; the language model's output layer has a bias of its own.
 * Megatron-core's may also predict the order of two sentences, which needs the token types. */
static void encoder_head(struct count *n, int64_t vocabulary)
{
	const struct config *c = n->c;
	const int64_t labels = OR_ELSE(c, num_labels, 0);

	const int order = is_megatron(c) && OR_ELSE(c, bert_binary_head, 1);

	if (!is_megatron(c) || order)
		module(n, 1, (__int128)OR_ELSE(c, type_vocab_size, 2) * n->h);
	linear(n, 1 + order, n->h, n->h, 1);
	if (order)
		linear(n, 1, n->h, 2, 1);
	if (labels) {
		linear(n, 1, n->h, labels, 1);
		return;
	}
	norm(n, 1, n->h);
	module(n, 1, vocabulary);
}

static void decoder_only(struct count *n, int64_t vocabulary, int64_t ffn)
{
	const struct config *c = n->c;
	int64_t moe = expert_layers(c), norms = OR_ELSE(c, norms_per_layer, 2);
	int64_t linear_attention = linear_layers(c), whole = c->num_layers - linear_attention;

	module(n, 1, (__int128)vocabulary * n->h);
	if (learns_positions(c))
		module(n, 1, (__int128)c->max_position_embeddings * n->h);
	if (c->multi_latent_attention)
		latent_attention(n, whole);
	else
		attention(n, whole);
	delta_net(n, linear_attention);
	feed_forward(n, c->num_layers - moe, ffn);
	if (moe)
		experts(n, moe, ffn);
	norm(n, norms * (__int128)c->num_layers + (norms > 0) + !!(n->fused & EMBEDDING_NORM),
	     n->h);
	if (c->untie_embeddings_and_output_weights)
		linear(n, 1, n->h, vocabulary, n->fused & HEAD_BIAS);
}

static int has_images(const struct config *c)
{
	return config_has(c, CONFIG_image_size) && config_has(c, CONFIG_patch_size) &&
	       config_has(c, CONFIG_num_channels);
}

/* ViT: a convolution over patches, the class's token, and the classes. */
static void images(struct count *n, int64_t ffn)
{
	const struct config *c = n->c;
	const int64_t side = c->image_size / c->patch_size, labels = OR_ELSE(c, num_labels, 0);

	linear(n, 1, c->num_channels * c->patch_size * c->patch_size, n->h, 1);
	module(n, 1, n->h + (__int128)(side * side + 1) * n->h);
	attention(n, c->num_layers);
	feed_forward(n, c->num_layers, ffn);
	norm(n, 2 * (__int128)c->num_layers + 1, n->h);
	if (labels)
		linear(n, 1, n->h, labels, 1);
}

static int count_given(const struct config *c, int64_t *total, int64_t *largest, struct err *e)
{
	static const enum config_field needed[] = { CONFIG_num_layers, CONFIG_hidden_size,
						    CONFIG_num_attention_heads };
	struct count n = { c, 0, 0, 0, c->hidden_size };
	int64_t vocabulary = OR_ELSE(c, padded_vocab_size, c->vocab_size);
	int64_t ffn;

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!config_has(c, needed[i]))
			return err_set(e, "parameters cannot be counted: no %s",
				       config_name(needed[i]));
	if (!vocabulary && !has_images(c))
		return err_set(e, "parameters cannot be counted: no vocab_size");
	for (size_t i = 0; c->model_type && i < ARRAY_SIZE(shapes); i++)
		if (!strcmp(shapes[i].model_type, c->model_type))
			n.fused = shapes[i].fused;
	ffn = OR_ELSE(c, ffn_hidden_size, 4 * c->hidden_size);
	if (has_images(c))
		images(&n, ffn);
	else if (config_has(c, CONFIG_encoder_num_layers))
		encoder_decoder(&n, vocabulary, ffn);
	else
		decoder_only(&n, vocabulary, ffn);
	if (c->model_type && config_is_encoder(c->model_type))
		encoder_head(&n, vocabulary);
	if (n.total > (__int128)1000000000000000)
		return err_set(e, "parameters cannot be counted: more than 10^15");
	*total = (int64_t)n.total;
	*largest = (int64_t)n.largest;
	return 0;
}

/* Defaults by `arch`; llama is the default of `arch`. */
static const struct {
	enum config_field field;
	const char *llama, *gpt;
} defaults[] = {
	{ CONFIG_swiglu, "true", "false" },
	{ CONFIG_add_bias_linear, "false", "true" },
	{ CONFIG_normalization, "RMSNorm", "LayerNorm" },
	{ CONFIG_untie_embeddings_and_output_weights, "true", "false" },
};

/* Megatron's rule for SwiGLU: two thirds of 4 h, in multiples of 64. */
static void set_width(struct config *c, struct err *e)
{
	int64_t width = c->hidden_size * 8 / 3 / 64 * 64;

	if (!config_has(c, CONFIG_ffn_hidden_size) && config_has(c, CONFIG_hidden_size) &&
	    c->swiglu)
		config_set_int(c, CONFIG_ffn_hidden_size, width > 64 ? width : 64, "default", e);
}

int config_count_parameters(const struct config *given, int64_t *total, int64_t *largest,
			    struct err *e)
{
	int gpt = config_has(given, CONFIG_arch) && !strcmp(given->arch, "gpt"), status;
	struct config c;

	/* A model_type fixes its own architecture. */
	if (config_has(given, CONFIG_model_type))
		return count_given(given, total, largest, e);
	config_init(&c);
	config_copy(&c, given);
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		config_set_default(&c, defaults[i].field, gpt ? defaults[i].gpt : defaults[i].llama,
				   "default", e);
	set_width(&c, e);
	status = count_given(&c, total, largest, e);
	config_release(&c);
	return status;
}

/* RoBERTa's first position follows that of its padding token, 1. */
int64_t config_most_tokens(const struct config *c)
{
	const int64_t positions = c->max_position_embeddings;
	const int is_roberta = c->model_type && config_is_encoder(c->model_type) &&
			       strcmp(c->model_type, "bert") != 0;

	return is_roberta && positions > 2 ? positions - 2 : positions;
}
