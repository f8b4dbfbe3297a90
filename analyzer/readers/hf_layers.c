/* The keys of a Hugging Face file that say which of its layers differ (experts, windows), and those
 * that make another model of an architecture than the one that memtrace models. */
#include "readers/hf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/parameter_count.h"
#include "util/buf.h"
#include "util/util.h"

static void mark(char *layers, int64_t count, const struct doc_node *list, char bit)
{
	for (const struct doc_node *n = list && list->kind == DOC_LIST ? list->first : NULL; n;
	     n = n->next) {
		int64_t i = n->kind == DOC_NUMBER ? strtoll(n->text, NULL, 10) : -1;

		if (i >= 0 && i < count)
			layers[i] = bit;
	}
}

/* Sets '1' for each layer with experts, '0' for the others. Four families declare it in four ways.
 */
static void find_sparse(char *layers, int64_t count, const char *type, const struct doc_node *map)
{
	const struct doc_node *list = doc_find(map, "moe_layers");
	int deepseek = !strcmp(type, "deepseek_v3"), llama = !strcmp(type, "llama4_text");
	int64_t dense = doc_number(map, "first_k_dense_replace", 3);
	int64_t step =
		doc_number(map, llama ? "interleave_moe_layer_step" : "decoder_sparse_step", 1);

	for (int64_t i = 0; i < count; i++)
		layers[i] = (deepseek ? i >= dense : step > 0 && (i + 1) % step == 0) ? '1' : '0';
	if (llama && list && list->kind == DOC_LIST) {
		memset(layers, '0', (size_t)count);
		mark(layers, count, list, '1');
	} else if (!deepseek) {
		mark(layers, count, doc_find(map, "mlp_only_layers"), '0');
	}
}

int config_read_expert_layers(struct reader *r, const struct doc_node *map, const char *type)
{
	int64_t count = r->c->num_layers;
	struct buf list = { 0 };
	char *layers;
	int status;

	if (!config_has(r->c, CONFIG_num_experts) || r->c->num_experts == 0)
		return 0;
	layers = xcalloc((size_t)count, 1);
	find_sparse(layers, count, type, map);
	buf_puts(&list, "[");
	for (int64_t i = 0; i < count; i++)
		buf_addf(&list, "%s%c", i ? "," : "", layers[i]);
	buf_puts(&list, "]");
	r->key = "moe_layer_freq";
	status = reader_put(r, CONFIG_moe_layer_freq, list.text);
	buf_release(&list);
	free(layers);
	return status;
}

/* ---- other models of an architecture ---- */

/* The most points of an image's side. */
#define MOST_SIDE 30000
#define SLIDING "sliding_attention"
#define FULL "full_attention"

/* Keys that make another model of an architecture if they have a value other than null, false or 0.
 */
static const struct {
	const char *type, *key;
} variants[] = {
	{ "qwen2", "use_sliding_window" },
	{ "qwen3", "use_sliding_window" },
	{ "qwen2_moe", "use_sliding_window" },
	{ "qwen3_moe", "use_sliding_window" },
	{ "olmo", "clip_qkv" },
	{ "gemma2", "use_bidirectional_attention" },
	{ "gpt2", "add_cross_attention" },
	{ "gpt2", "reorder_and_upcast_attn" },
	{ "bloom", "apply_residual_connection_post_layernorm" },
	{ "bloom", "slow_but_exact" },
	{ "gemma3_text", "attn_logit_softcapping" },
	{ "gemma3_text", "final_logit_softcapping" },
	{ "gemma3_text", "use_bidirectional_attention" },
};

/* Gemma 2 has both unless its file says null. */
static const char *const caps[] = { "attn_logit_softcapping", "final_logit_softcapping" };

static const char *text_of(const struct doc_node *n)
{
	return n && n->kind != DOC_NULL && n->kind != DOC_MAP && n->kind != DOC_LIST && n->text
		       ? n->text
		       : "";
}

static int put(struct reader *r, enum config_field f, const char *value)
{
	r->key = config_name(f);
	return reader_put(r, f, value);
}

static int read_rotary(struct reader *r, const struct doc_node *map)
{
	const char *given = text_of(doc_find(map, "partial_rotary_factor"));
	const struct doc_node *rope = doc_find(map, "rope_parameters");

	if (!*given && rope && rope->kind == DOC_MAP)
		given = text_of(doc_find(rope, "partial_rotary_factor"));
	return *given ? put(r, CONFIG_rotary_percent, given) : 0;
}

/* Gemma 3: each sixth layer sees all tokens, the others a window. */
static int is_usual_pattern(const struct doc_node *map)
{
	const struct doc_node *list = doc_find(map, "layer_types");
	const char *period = text_of(doc_find(map, "sliding_window_pattern"));
	int64_t i = 0;

	if (!list || list->kind != DOC_LIST)
		return !*period || !strcmp(period, "6");
	for (const struct doc_node *n = list->first; n; n = n->next)
		if (strcmp(text_of(n), ++i % 6 ? SLIDING : FULL) != 0)
			return 0;
	return 1;
}

/* The residual of attention and feed-forward together, and the activation function. */
static int read_neox(struct reader *r, const struct doc_node *map)
{
	const char *parallel = text_of(doc_find(map, "use_parallel_residual"));
	const char *function = text_of(doc_find(map, "hidden_act"));

	if (parse_bool(parallel) == 0 && reader_put_unmodelled(r, "use_parallel_residual", "false"))
		return -1;
	return *function ? put(r, CONFIG_hidden_act, function) : 0;
}

static int put_number(struct reader *r, enum config_field f, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	return put(r, f, text);
}

static int flag_of(const struct doc_node *map, const char *key, int missing)
{
	const char *value = text_of(doc_find(map, key));

	return *value ? parse_bool(value) == 1 : missing;
}

/* Falcon's pairs of keys and values: of each head, of all heads, or of each group of heads; its
 * norms, biases and positions. */
static int read_falcon(struct reader *r, const struct doc_node *map)
{
	const int grouped = flag_of(map, "new_decoder_architecture", 0);
	const int64_t heads = r->c->num_attention_heads;
	const int64_t groups = grouped ? doc_number(map, "num_kv_heads", heads)
			       : flag_of(map, "multi_query", 1) ? 1
								: heads;
	const int64_t norms = grouped ? doc_number(map, "num_ln_in_parallel_attn", 2)
			      : flag_of(map, "parallel_attn", 1) ? 1
								 : 2;
	static const enum config_field biases[] = { CONFIG_add_bias_linear,
						    CONFIG_attention_output_bias, CONFIG_mlp_bias };
	const char *function = text_of(doc_find(map, "activation"));

	if (grouped && (groups == 1 || groups == heads) &&
	    reader_put_unmodelled(r, "num_kv_heads", "1 or num_attention_heads"))
		return -1;
	if (*function && put(r, CONFIG_hidden_act, function))
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(biases); i++)
		if (put(r, biases[i], flag_of(map, "bias", 0) ? "true" : "false"))
			return -1;
	if (put(r, CONFIG_position_embedding_type, flag_of(map, "alibi", 0) ? "none" : "rope") ||
	    put_number(r, CONFIG_num_query_groups, groups) ||
	    put_number(r, CONFIG_norms_per_layer, norms))
		return -1;
	return put_number(r, CONFIG_ffn_hidden_size,
			  doc_number(map, "ffn_hidden_size", 4 * r->c->hidden_size));
}

/* T5's activation function ("gated-gelu" has that of GPT-2, and is mT5's), its only dropout, and
 * the factor before its output layer, which a file without it has unless it declares weights that
 * are not tied. mT5 has none. */
static int read_t5(struct reader *r, const struct doc_node *map, int is_mt5)
{
	const char *function = text_of(doc_find(map, "feed_forward_proj"));
	const char *drop = text_of(doc_find(map, "dropout_rate"));
	const int tied = flag_of(map, "tie_word_embeddings", 1);
	const int scales = !is_mt5 && flag_of(map, "scale_decoder_outputs", tied);

	if (!*function)
		function = is_mt5 ? "gated-gelu" : "relu";
	if (put(r, CONFIG_swiglu, strncmp(function, "gated-", 6) ? "false" : "true"))
		return -1;
	function = !strcmp(function, "gated-gelu")   ? "gelu_new"
		   : !strncmp(function, "gated-", 6) ? function + 6
						     : function;
	return put(r, CONFIG_hidden_act, function) ||
			       put(r, CONFIG_attention_dropout, *drop ? drop : "0.1") ||
			       put(r, CONFIG_scale_decoder_outputs, scales ? "true" : "false")
		       ? -1
		       : 0;
}

/* BERT and its kind: what a decoder, and a feed-forward network in pieces, has otherwise. */
static int read_encoder(struct reader *r, const struct doc_node *map)
{
	static const char *const others[] = { "is_decoder", "add_cross_attention" };
	const char *function = text_of(doc_find(map, "hidden_act"));

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (parse_bool(text_of(doc_find(map, others[i]))) == 1 &&
		    reader_put_unmodelled(r, others[i], "true"))
			return -1;
	if (doc_number(map, "chunk_size_feed_forward", 0) &&
	    reader_put_unmodelled(r, "chunk_size_feed_forward", "not 0"))
		return -1;
	return *function ? put(r, CONFIG_hidden_act, function) : 0;
}

/* The classes of a classifier, and the loss that it has for them. */
static int read_labels(struct reader *r, const struct doc_node *map)
{
	const struct doc_node *names = doc_find(map, "id2label");
	const char *dropout = text_of(doc_find(map, "classifier_dropout"));
	const char *problem = text_of(doc_find(map, "problem_type"));
	int64_t count = 0;
	char text[32];

	for (const struct doc_node *n = names && names->kind == DOC_MAP ? names->first : NULL; n;
	     n = n->next)
		count++;
	snprintf(text, sizeof(text), "%lld",
		 (long long)(count ? count : doc_number(map, "num_labels", 2)));
	if (!strcmp(text, "1") && reader_put_unmodelled(r, "num_labels", "1, a regression"))
		return -1;
	if (*problem && strcmp(problem, "single_label_classification") != 0 &&
	    reader_put_unmodelled(r, "problem_type", problem))
		return -1;
	if (*dropout && put(r, CONFIG_classifier_dropout, dropout))
		return -1;
	return put(r, CONFIG_num_labels, text);
}

/* A height that is the width too. A list may have others: those are named. */
static int64_t side_of(struct reader *r, const struct doc_node *map, const char *key,
		       int64_t missing)
{
	const struct doc_node *list = doc_find(map, key), *width;
	int64_t side = doc_number(map, key, missing);

	if (list && list->kind == DOC_LIST && list->first) {
		width = list->first->next;
		side = strtoll(text_of(list->first), NULL, 10);
		if ((!width || strtoll(text_of(width), NULL, 10) != side) &&
		    reader_put_unmodelled(r, key, "not a square"))
			return -1;
	}
	return side > 0 && side <= MOST_SIDE ? side : missing;
}

/* A transformer of images: each patch is a token, after that of the class. */
static int read_vit(struct reader *r, const struct doc_node *map)
{
	const int64_t image = side_of(r, map, "image_size", 224);
	const int64_t patch = side_of(r, map, "patch_size", 16);
	const char *function = text_of(doc_find(map, "hidden_act"));
	int64_t side, tokens;

	if (image < 0 || patch < 0)
		return -1;
	side = image / patch;
	tokens = side * side + 1;
	return put_number(r, CONFIG_image_size, image) || put_number(r, CONFIG_patch_size, patch) ||
			       put_number(r, CONFIG_num_channels,
					  doc_number(map, "num_channels", 3)) ||
			       put_number(r, CONFIG_seq_length, tokens) ||
			       put_number(r, CONFIG_max_position_embeddings, tokens) ||
			       put(r, CONFIG_hidden_act, *function ? function : "gelu") ||
			       read_labels(r, map)
		       ? -1
		       : 0;
}

/* Puts fields from inner maps, and names variants in unmodelled_options. */
int config_read_variants(struct reader *r, const struct doc_node *map, const char *type)
{
	if (!strcmp(type, "vit") && read_vit(r, map))
		return -1;

	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		const char *value = text_of(doc_find(map, variants[i].key));

		if (strcmp(variants[i].type, type) != 0 || !*value || parse_bool(value) == 0)
			continue;
		r->key = variants[i].key;
		if (reader_put_unmodelled(r, variants[i].key, value))
			return -1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(caps) && !strcmp(type, "gemma2"); i++) {
		const struct doc_node *cap = doc_find(map, caps[i]);

		if (cap && cap->kind == DOC_NULL && reader_put_unmodelled(r, caps[i], "null"))
			return -1;
	}
	if (!strcmp(type, "gpt_neox") && read_neox(r, map))
		return -1;
	if (!strcmp(type, "falcon") && read_falcon(r, map))
		return -1;
	if (config_is_encoder(type) && read_encoder(r, map))
		return -1;
	if (config_is_t5(type) && read_t5(r, map, !strcmp(type, "mt5")))
		return -1;
	if (!strcmp(type, "gemma3_text") && !is_usual_pattern(map) &&
	    reader_put_unmodelled(r, "layer_types", "another pattern than one layer of six"))
		return -1;
	return read_rotary(r, map);
}

/* The class that transformers trains: the first of "architectures" that it has. Another one than
 * the language model of its type has another output layer, loss and batch. */
int config_read_class(struct reader *r, const struct doc_node *map)
{
	static const char *const decoders[] = { "ForCausalLM", "LMHeadModel",
						"ForConditionalGeneration" };
	static const char *const encoders[] = { "ForMaskedLM" };
	const struct doc_node *list = doc_find(map, "architectures");
	const char *name = list && list->kind == DOC_LIST ? text_of(list->first) : "";
	const int encoder = config_is_encoder(r->c->model_type);
	const size_t count = encoder ? ARRAY_SIZE(encoders) : ARRAY_SIZE(decoders);

	if (!*name)
		return 0;
	if (encoder && ends_with(name, "ForSequenceClassification"))
		return read_labels(r, map);
	if (!strcmp(r->c->model_type, "vit") && ends_with(name, "ForImageClassification"))
		return 0;
	for (size_t i = 0; i < count && strcmp(r->c->model_type, "vit") != 0; i++)
		if (ends_with(name, encoder ? encoders[i] : decoders[i]))
			return 0;
	r->key = "architectures";
	return reader_put_unmodelled(r, "architectures", name);
}
