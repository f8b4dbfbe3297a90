/* config.json: transformers' names, and the values that the code of each architecture fixes. */
#include "readers/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/parameter_count.h"
#include "util/buf.h"

static int take_attention_bias(struct reader *r, int field, const char *value)
{
	(void)field;
	return reader_put(r, CONFIG_add_qkv_bias, value) ||
			       reader_put(r, CONFIG_attention_output_bias, value)
		       ? -1
		       : 0;
}

/* DeepSeek's files declare multi-token prediction, but transformers does not build it. */
static int take_next_tokens(struct reader *r, int field, const char *value)
{
	(void)field;
	if (strcmp(value, "0"))
		config_note(r->c,
			    "%s: %s is %.20s: transformers builds no multi-token prediction; "
			    "mtp_num_layers declares it",
			    r->origin, r->key, value);
	return 0;
}

/* T5's "gated-gelu" */
static int take_gated(struct reader *r, int field, const char *value)
{
	return reader_put(r, field, strncmp(value, "gated", 5) ? "false" : "true");
}

static const struct key_row rows[] = {
	{ "num_hidden_layers", CONFIG_num_layers, NULL },
	{ "n_layer", CONFIG_num_layers, NULL },
	{ "num_layers", CONFIG_num_layers, NULL },
	{ "hidden_size", CONFIG_hidden_size, NULL },
	{ "n_embd", CONFIG_hidden_size, NULL },
	{ "n_embed", CONFIG_hidden_size, NULL },
	{ "d_model", CONFIG_hidden_size, NULL },
	{ "num_attention_heads", CONFIG_num_attention_heads, NULL },
	{ "n_head", CONFIG_num_attention_heads, NULL },
	{ "num_heads", CONFIG_num_attention_heads, NULL },
	{ "num_key_value_heads", CONFIG_num_query_groups, NULL },
	{ "intermediate_size", CONFIG_ffn_hidden_size, NULL },
	{ "n_inner", CONFIG_ffn_hidden_size, NULL },
	{ "d_ff", CONFIG_ffn_hidden_size, NULL },
	{ "head_dim", CONFIG_kv_channels, NULL },
	{ "d_kv", CONFIG_kv_channels, NULL },
	{ "vocab_size", CONFIG_vocab_size, NULL },
	{ "max_position_embeddings", CONFIG_max_position_embeddings, NULL },
	{ "n_positions", CONFIG_max_position_embeddings, NULL },
	{ "max_target_positions", CONFIG_max_position_embeddings, NULL },
	{ "tie_word_embeddings", CONFIG_untie_embeddings_and_output_weights, take_not },
	{ "attention_bias", -1, take_attention_bias },
	{ "qkv_bias", CONFIG_add_qkv_bias, NULL },
	{ "mlp_bias", CONFIG_mlp_bias, NULL },
	{ "attention_dropout", CONFIG_attention_dropout, NULL },
	{ "attn_pdrop", CONFIG_attention_dropout, NULL },
	{ "hidden_dropout", CONFIG_hidden_dropout, NULL },
	{ "residual_dropout", CONFIG_hidden_dropout, NULL },
	{ "resid_pdrop", CONFIG_hidden_dropout, NULL },
	{ "embd_pdrop", CONFIG_embedding_dropout, NULL },
	{ "activation_function", CONFIG_hidden_act, NULL },
	{ "hidden_dropout_prob", CONFIG_hidden_dropout, NULL },
	{ "attention_probs_dropout_prob", CONFIG_attention_dropout, NULL },
	{ "type_vocab_size", CONFIG_type_vocab_size, NULL },
	{ "rotary_pct", CONFIG_rotary_percent, NULL },
	{ "dropout_rate", CONFIG_hidden_dropout, NULL },
	{ "num_local_experts", CONFIG_num_experts, NULL },
	{ "num_experts", CONFIG_num_experts, NULL },
	{ "n_routed_experts", CONFIG_num_experts, NULL },
	{ "num_experts_per_tok", CONFIG_moe_router_topk, NULL },
	{ "moe_intermediate_size", CONFIG_moe_ffn_hidden_size, NULL },
	{ "norm_topk_prob", CONFIG_norm_topk_prob, NULL },
	{ "shared_expert_intermediate_size", CONFIG_moe_shared_expert_intermediate_size, NULL },
	{ "q_lora_rank", CONFIG_q_lora_rank, NULL },
	{ "kv_lora_rank", CONFIG_kv_lora_rank, NULL },
	{ "qk_nope_head_dim", CONFIG_qk_head_dim, NULL },
	{ "qk_rope_head_dim", CONFIG_qk_pos_emb_head_dim, NULL },
	{ "v_head_dim", CONFIG_v_head_dim, NULL },
	{ "num_nextn_predict_layers", -1, take_next_tokens },
	{ "relative_attention_num_buckets", CONFIG_relative_attention_num_buckets, NULL },
	{ "feed_forward_proj", CONFIG_swiglu, take_gated },
	{ "_attn_implementation", CONFIG_attention, take_attention },
	{ "attn_implementation", CONFIG_attention, take_attention },
	{ "transformers_version", CONFIG_transformers_version, NULL },
};

/* Values of an architecture before its file is read: those that its code fixes, and the defaults of
 * its configuration class. "" is every architecture. */
static const struct {
	const char *type;
	enum config_field field;
	const char *value;
} defaults[] = {
#define DEFAULT(type, field, value) { type, CONFIG_##field, value },
#include "readers/hf_defaults.def"
#undef DEFAULT
};

static const char *const types[] = {
	"llama",   "mistral",   "qwen2",     "qwen3",       "gemma",       "gemma2", "gemma3_text",
	"gpt2",    "gpt_neox",  "phi3",      "glm",         "glm4",        "olmo",   "olmo2",
	"mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v3", "llama4_text", "bloom",  "falcon",
	"vit",     "granite",   "seed_oss",  "phi",         NULL,
};

/* Fields that an earlier file may have set and this architecture need not have. */
static const enum config_field forgotten[] = {
	CONFIG_num_query_groups,
	CONFIG_kv_channels,
	CONFIG_ffn_hidden_size,
	CONFIG_num_experts,
	CONFIG_moe_router_topk,
	CONFIG_moe_ffn_hidden_size,
	CONFIG_moe_layer_freq,
	CONFIG_moe_shared_expert_intermediate_size,
	CONFIG_moe_shared_expert_gate,
	CONFIG_q_lora_rank,
	CONFIG_kv_lora_rank,
	CONFIG_encoder_num_layers,
	CONFIG_num_parameters,
	CONFIG_padded_vocab_size,
	CONFIG_rotary_percent,
	CONFIG_window_size,
	CONFIG_embedding_dropout,
	CONFIG_hidden_act,
	CONFIG_type_vocab_size,
	CONFIG_num_labels,
	CONFIG_classifier_dropout,
	CONFIG_scale_decoder_outputs,
	CONFIG_image_size,
	CONFIG_patch_size,
	CONFIG_num_channels,
};

int hf_knows_type(const char *type)
{
	for (size_t i = 0; types[i]; i++)
		if (!strcmp(types[i], type))
			return 1;
	return config_is_encoder(type) || config_is_t5(type);
}

const char *hf_default(const char *type, enum config_field f)
{
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		if (defaults[i].field == f && !strcmp(defaults[i].type, type))
			return defaults[i].value;
	return NULL;
}

static int put_defaults(struct reader *r, const char *type)
{
	char *origin = xasprintf("%s: %s's default", r->origin, type);
	struct reader d = { .c = r->c, .origin = origin, .e = r->e };
	const char *like = config_is_encoder(type) ? "bert" : config_is_t5(type) ? "t5" : type;
	int status = 0;

	for (size_t i = 0; !status && i < ARRAY_SIZE(forgotten); i++)
		config_unset(r->c, forgotten[i]);
	for (size_t i = 0; !status && i < ARRAY_SIZE(defaults); i++) {
		int is_general = !*defaults[i].type;

		if (!is_general && strcmp(defaults[i].type, like))
			continue;
		/* An unknown architecture gets no defaults but the framework. */
		if (is_general && !hf_knows_type(type) && defaults[i].field != CONFIG_framework) {
			config_unset(r->c, defaults[i].field);
			continue;
		}
		d.key = config_name(defaults[i].field);
		status = reader_put(&d, defaults[i].field, defaults[i].value);
	}
	free(origin);
	return status;
}

static int put_number(struct reader *r, enum config_field f, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	r->key = config_name(f);
	return reader_put(r, f, text);
}

/* Fields that depend on more than one key. */
static int put_rest(struct reader *r, const struct doc_node *map, const char *type)
{
	struct config *c = r->c;
	int status = 0;

	if (config_is_t5(type)) {
		int64_t layers = doc_number(map, "num_layers", 6);

		if (c->untie_embeddings_and_output_weights) {
			config_note(
				c,
				"%s: transformers 5 ties T5's embeddings whatever the file says; version 4 has %lld parameters more",
				r->origin, (long long)c->vocab_size * c->hidden_size);
			r->key = "tie_word_embeddings";
			if (reader_put(r, CONFIG_untie_embeddings_and_output_weights, "false"))
				return -1;
		}

		status = put_number(r, CONFIG_encoder_num_layers, layers) ||
			 put_number(r, CONFIG_num_layers,
				    doc_number(map, "num_decoder_layers", layers));
	} else if (!strcmp(type, "deepseek_v3")) {
		const struct doc_node *rank = doc_find(map, "q_lora_rank");

		if (rank && rank->kind == DOC_NULL)
			config_unset(c, CONFIG_q_lora_rank);
		/* Latent attention does not use head_dim and num_key_value_heads. */
		config_unset(c, CONFIG_kv_channels);
		config_unset(c, CONFIG_num_query_groups);
		if (c->moe_ffn_hidden_size > 0)
			status = put_number(
				r, CONFIG_moe_shared_expert_intermediate_size,
				c->moe_ffn_hidden_size *
					(doc_number(map, "n_shared_experts", 1) & 0xffff));
	} else if (!strcmp(type, "llama4_text")) {
		status = put_number(r, CONFIG_moe_ffn_hidden_size, c->ffn_hidden_size) ||
			 put_number(r, CONFIG_moe_shared_expert_intermediate_size,
				    c->ffn_hidden_size) ||
			 put_number(r, CONFIG_ffn_hidden_size,
				    doc_number(map, "intermediate_size_mlp", 16384));
	} else if (!strcmp(type, "glm") || !strcmp(type, "glm4") || !strcmp(type, "seed_oss")) {
		/* attention_bias is that of queries, keys and values alone */
		r->key = "attention_bias";
		status = reader_put(r, CONFIG_attention_output_bias, "false");
	} else if (!strcmp(type, "gpt_neox") && c->add_qkv_bias) {
		r->key = "add_bias_linear";
		status = reader_put(r, CONFIG_add_bias_linear, "true");
	} else if (!strcmp(type, "bloom") ||
		   (!strcmp(type, "gpt2") && !config_has(c, CONFIG_ffn_hidden_size))) {
		status = put_number(r, CONFIG_ffn_hidden_size, 4 * c->hidden_size);
	}
	if (status || !strcmp(type, "mixtral"))
		return status ? -1 : 0;
	return config_read_expert_layers(r, map, type);
}

static int check_needed(const struct reader *r, const char *type)
{
	static const struct {
		enum config_field field;
		const char *key, *gpt2, *t5, *bloom;
	} needed[] = {
		{ CONFIG_num_layers, "num_hidden_layers", "n_layer", "num_layers", "n_layer" },
		{ CONFIG_hidden_size, "hidden_size", "n_embd", "d_model", "hidden_size" },
		{ CONFIG_num_attention_heads, "num_attention_heads", "n_head", "num_heads",
		  "n_head" },
		{ CONFIG_vocab_size, "vocab_size", "vocab_size", "vocab_size", "vocab_size" },
		{ CONFIG_ffn_hidden_size, "intermediate_size", NULL, "d_ff", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		const char *key = !strcmp(type, "gpt2")    ? needed[i].gpt2
				  : config_is_t5(type)     ? needed[i].t5
				  : !strcmp(type, "bloom") ? needed[i].bloom
							   : needed[i].key;

		if ((needed[i].field == CONFIG_ffn_hidden_size && !strcmp(type, "falcon")) ||
		    (needed[i].field == CONFIG_vocab_size && !strcmp(type, "vit")))
			continue;
		if (key && !config_has(r->c, needed[i].field))
			return err_set(
				r->e,
				"%s: no \"%s\", which a configuration of model_type \"%s\" needs",
				r->origin, key, type);
	}
	return 0;
}

/* The map of the language model, if the file describes a vision-language model. */
static const struct doc_node *text_model(const struct doc_node *root, struct reader *r)
{
	const struct doc_node *text = doc_find(root, "text_config");

	if (!text || text->kind != DOC_MAP)
		return root;
	config_note(
		r->c,
		"%s: the sizes are those of the language model (text_config), which a formula counts alone",
		r->origin);
	return text;
}

/* A key without a row: a note if it looks like a size, since other architectures have sizes of
 * their own. */
static int unknown(struct reader *r, const char *key, const char *value)
{
	static const char *const matter[] = { "_size", "_dim",  "layers", "heads", "experts",
					      "_rank", "width", "mamba",  "ssm",   "lora" };
	/* Keys that are read elsewhere in this file, or have no effect. */
	static const char silent[] =
		" interleave_moe_layer_step intermediate_size_mlp max_window_layers mlp_only_layers "
		"moe_layers n_shared_experts num_decoder_layers chunk_size_feed_forward "
		"no_repeat_ngram_size encoder_no_repeat_ngram_size attention_chunk_size "
		"sliding_window_size no_rope_layers no_rope_layer_interval pruned_heads "
		"original_max_position_embeddings image_size patch_size ep_size pretraining_tp num_kv_heads "
		"ffn_hidden_size ";
	const char *at = strstr(silent, key);
	char *end;

	if (at && at > silent && at[-1] == ' ' && at[strlen(key)] == ' ')
		return 0;
	if (strtod(value, &end) <= 0 || *end)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(matter); i++)
		if (strstr(key, matter[i])) {
			config_note(r->c, "%s: unknown key %s", r->origin, key);
			return 0;
		}
	return 0;
}

static int read_rows(struct reader *r, const struct doc_node *map, const char *name)
{
	struct key_table t = { rows, ARRAY_SIZE(rows), 0, unknown };

	return reader_read_map(r, &t, map, name);
}

/* Sliding windows, with the defaults of transformers' configuration classes; null is none. */
static int read_window(struct reader *r, const struct doc_node *map, const char *type)
{
	static const struct {
		const char *type, *missing;
	} windowed[] = { { "mistral", "4096" }, { "phi3", "" }, { "gemma3_text", "4096" } };
	const struct doc_node *given = doc_find(map, "sliding_window");
	const int is_value = given && given->text && given->kind != DOC_NULL &&
			     given->kind != DOC_MAP && given->kind != DOC_LIST;

	r->key = config_name(CONFIG_window_size);
	for (size_t i = 0; i < ARRAY_SIZE(windowed); i++) {
		const char *window = is_value ? given->text : given ? "" : windowed[i].missing;

		if (!strcmp(windowed[i].type, type) && *window)
			return reader_put(r, CONFIG_window_size, window);
	}
	return 0;
}

int config_read_hf(struct reader *r, const struct doc_node *root, const char *name)
{
	const struct doc_node *tie = doc_find(root, "tie_word_embeddings"), *map, *type;
	const char *what;

	r->origin = name;
	map = text_model(root, r);
	type = doc_find(map, "model_type");
	if (!type && map != root)
		what = "llama"; /* LLaVA's files leave it out */
	else if (!type || type->kind != DOC_STRING)
		return err_set(r->e, "%s: no \"model_type\"", name);
	else
		what = type->text;
	if (doc_find(map, "quantization_config") || doc_find(root, "quantization_config"))
		config_note(r->c, "%s: quantization_config is not modelled", name);
	r->c->from_framework = 1;
	config_set_model_file(r->c, access(name, R_OK) ? NULL : name);
	r->c->is_language_part = map != root;
	r->key = "model_type";
	if (put_defaults(r, what) || reader_put(r, CONFIG_model_type, what) ||
	    read_rows(r, map, name))
		return -1;
	if (!hf_knows_type(what))
		return 0;
	if (tie && map != root && !doc_find(map, "tie_word_embeddings") && tie->kind == DOC_BOOL) {
		r->key = "tie_word_embeddings";
		if (take_not(r, CONFIG_untie_embeddings_and_output_weights, tie->text))
			return -1;
	}
	r->origin = name;
	if (check_needed(r, what) || put_rest(r, map, what) || config_read_variants(r, map, what) ||
	    read_window(r, map, what))
		return -1;
	return map == root ? config_read_class(r, map) : 0;
}
