/* The arguments of Megatron-LM in snake case. An argument with the name of a field needs no row. */
#include "readers/megatron.h"

#include "readers/megatron_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/buf.h"

static void mark(struct reader *r, unsigned bit)
{
	if (r->state)
		*(unsigned *)r->state |= bit;
}

static int is_off(const char *value)
{
	return parse_bool(value) == 0 || !strcmp(value, "null") || !strcmp(value, "None");
}

/* --bf16, --fp16: 16-bit weights with fp32 master weights. */
static int take_16bit(struct reader *r, int field, const char *value)
{
	const char *name = strstr(r->key, "bf16") ? "bf16-mixed" : "fp16-mixed";
	int on = parse_bool(value);

	if (on < 0)
		return err_set(r->e, "%s: %s is \"%.60s\", but must be true or false", r->origin,
			       r->key, value);
	if (!on)
		return 0;
	if (r->state && *(unsigned *)r->state & PRECISION && r->c->precision &&
	    strcmp(r->c->precision, name))
		return err_set(r->e, "%s: %s contradicts %s (%s)", r->origin, r->key,
			       r->c->precision, r->c->origin[field]);
	mark(r, PRECISION);
	return reader_put(r, field, name);
}

/* Megatron-Bridge's mixed_precision: "bf16_mixed", "bf16_with_mxfp8_mixed" */
static int take_recipe(struct reader *r, int field, const char *value)
{
	if (strstr(value, "fp8") && reader_put(r, CONFIG_fp8_format, "hybrid"))
		return -1;
	return reader_put(r, field,
			  strstr(value, "fp16") && !strstr(value, "bf16") ? "fp16-mixed"
									  : "bf16-mixed");
}

static int take_recompute_activations(struct reader *r, int field, const char *value)
{
	return parse_bool(value) == 1 ? reader_put(r, field, "selective") : 0;
}

static int take_rotary(struct reader *r, int field, const char *value)
{
	return parse_bool(value) == 1 ? reader_put(r, field, "rope") : 0;
}

static int take_no_positions(struct reader *r, int field, const char *value)
{
	return parse_bool(value) == 1 ? reader_put(r, field, "none") : 0;
}

static int take_backend(struct reader *r, int field, const char *value)
{
	static const char *const names[][2] = {
		{ "flash", "flash" },     { "fused", "flash" },   { "auto", "flash" },
		{ "unfused", "unfused" }, { "local", "unfused" },
	};
	const char *dot = strrchr(value, '.'); /* Bridge writes "AttnBackend.flash" */

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(dot ? dot + 1 : value, names[i][0]))
			return reader_put(r, field, names[i][1]);
	return err_set(r->e,
		       "%s: %s is \"%.60s\", but must be one of: flash fused unfused local auto",
		       r->origin, r->key, value);
}

static int take_flash(struct reader *r, int field, const char *value)
{
	return parse_bool(value) == 1 ? reader_put(r, field, "flash") : 0;
}

static int take_group_query(struct reader *r, int field, const char *value)
{
	(void)field;
	if (parse_bool(value) == 1)
		mark(r, GROUP_QUERY);
	return 0;
}

/* Either of them also makes the data loader build every sample's mask. */
static int take_mask_reset(struct reader *r, int field, const char *value)
{
	return parse_bool(value) == 1 ? reader_put(r, field, value) : 0;
}

static int take_latent(struct reader *r, int field, const char *value)
{
	if (parse_bool(value) == 1)
		mark(r, MULTI_LATENT);
	return reader_put(r, field, value);
}

/* BERT and T5 are recognised by their vocabulary: their scripts seldom have arguments of their own.
 */
static int take_word_pieces(struct reader *r, int field, const char *value)
{
	size_t length = strlen(value);
	int is_file = length >= 9 && !strcmp(value + length - 9, "vocab.txt");

	(void)field;
	if (!strncmp(value, "BertWordPiece", 13) || is_file)
		mark(r, WORD_PIECES);
	if (is_file && strstr(value, "-cased"))
		mark(r, CASED);
	return 0;
}

/* A file of merges means GPT-2's vocabulary. */
static int take_tokenizer(struct reader *r, int field, const char *value)
{
	(void)field;
	if (!strcmp(r->key, "merge_file") || !strcmp(value, "GPT2BPETokenizer"))
		mark(r, TOKENIZER_GPT2);
	return take_word_pieces(r, field, value);
}

static int take_pads(struct reader *r, int field, const char *value)
{
	(void)field;
	if (parse_bool(value) == 1)
		mark(r, PADS);
	return 0;
}

static int take_pattern(struct reader *r, int field, const char *value)
{
	return is_off(value) ? 0 : reader_put(r, field, value);
}

static int take_checkpoint(struct reader *r, int field, const char *value)
{
	(void)field;
	if (parse_bool(value) == 1)
		mark(r, CHECKPOINT_SIZES);
	return 0;
}

/* Options that change the number of micro-batches while the job runs. */
static int take_schedule(struct reader *r, int field, const char *value)
{
	(void)field;
	if (parse_bool(value) != 0)
		config_note(r->c, "%s: %s matters for memory but is not modelled", r->origin,
			    r->key);
	return 0;
}

/* "127" or "(127,0)": the first number is the window to the left. */
static int take_window(struct reader *r, int field, const char *value)
{
	char first[24];
	size_t skip = strspn(value, "([ "), length = strspn(value + skip, "-0123456789");

	if (length == 0 || length >= sizeof(first))
		return reader_put(r, field, value);
	snprintf(first, sizeof(first), "%.*s", (int)length, value + skip);
	return reader_put(r, field, first);
}

/* A type: torch.float32, fp32 and float32 are the same. */
static int take_dtype(struct reader *r, int field, const char *value)
{
	static const char *const names[][2] = { { "float32", "fp32" },
						{ "bfloat16", "bf16" },
						{ "float16", "fp16" },
						{ "half", "fp16" },
						{ "uint8", "fp8" } };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strstr(value, names[i][0]))
			return reader_put(r, field, names[i][1]);
	return reader_put(r, field, value);
}

static const struct key_row rows[] = {
	{ "bf16", CONFIG_precision, take_16bit },
	{ "fp16", CONFIG_precision, take_16bit },
	{ "mixed_precision", CONFIG_precision, take_recipe },
	{ "fp8", CONFIG_fp8_format, NULL },
	{ "fp8_param", CONFIG_fp8_param_gather, NULL },
	{ "fp4", CONFIG_fp4_format, NULL },
	{ "fp4_param", CONFIG_fp4_param_gather, NULL },
	{ "grad_reduce_in_fp32", CONFIG_accumulate_allreduce_grads_in_fp32, NULL },
	{ "main_grads_dtype", CONFIG_main_grads_dtype, take_dtype },
	{ "main_params_dtype", CONFIG_main_params_dtype, take_dtype },
	{ "exp_avg_dtype", CONFIG_exp_avg_dtype, take_dtype },
	{ "exp_avg_sq_dtype", CONFIG_exp_avg_sq_dtype, take_dtype },
	{ "optimizer", CONFIG_optimizer, take_optimizer },
	{ "sgd_momentum", CONFIG_momentum, NULL },
	{ "recompute_activations", CONFIG_recompute_granularity, take_recompute_activations },
	{ "position_embedding_type", CONFIG_position_embedding_type, NULL },
	{ "no_position_embedding", CONFIG_position_embedding_type, take_no_positions },
	{ "use_rotary_position_embeddings", CONFIG_position_embedding_type, take_rotary },
	{ "attention_backend", CONFIG_attention, take_backend },
	{ "use_flash_attn", CONFIG_attention, take_flash },
	{ "group_query_attention", -1, take_group_query },
	{ "multi_latent_attention", CONFIG_multi_latent_attention, take_latent },
	{ "disable_bias_linear", CONFIG_add_bias_linear, take_not },
	{ "gated_linear_unit", CONFIG_swiglu, NULL },
	{ "num_moe_experts", CONFIG_num_experts, NULL },
	{ "share_embeddings_and_output_weights", CONFIG_untie_embeddings_and_output_weights,
	  take_not },
	{ "num_layers_in_first_pipeline_stage", CONFIG_decoder_first_pipeline_num_layers, NULL },
	{ "num_layers_in_last_pipeline_stage", CONFIG_decoder_last_pipeline_num_layers, NULL },
	{ "num_virtual_stages_per_pipeline_rank", CONFIG_virtual_pipeline_model_parallel_size,
	  NULL },
	{ "microbatch_group_size_per_vp_stage",
	  CONFIG_microbatch_group_size_per_virtual_pipeline_stage, NULL },
	{ "overlap_p2p_comm_warmup_flush", CONFIG_overlap_p2p_communication_warmup_flush, NULL },
	{ "use_custom_fsdp", CONFIG_use_megatron_fsdp, NULL },
	{ "torch_fsdp2_no_reshard_after_forward", CONFIG_reshard_after_forward, take_not },
	{ "torch_fsdp2_reshard_after_forward", CONFIG_reshard_after_forward, NULL },
	{ "nccl_ub", CONFIG_use_nccl_ub, NULL },
	{ "no_rope_fusion", CONFIG_apply_rope_fusion, take_not },
	{ "reset_position_ids", CONFIG_eod_mask_loss, take_mask_reset },
	{ "reset_attention_mask", CONFIG_eod_mask_loss, take_mask_reset },
	{ "hybrid_override_pattern", CONFIG_hybrid_layer_pattern, take_pattern },
	{ "hybrid_layer_pattern", CONFIG_hybrid_layer_pattern, take_pattern },
	{ "experimental_attention_variant", CONFIG_experimental_attention_variant, take_pattern },
	{ "linear_attention_freq", CONFIG_linear_attention_freq, take_pattern },
	{ "use_checkpoint_args", -1, take_checkpoint },
	{ "encoder_seq_length", CONFIG_seq_length, NULL },
	{ "decoder_num_layers", CONFIG_num_layers, NULL },
	{ "should_pad_vocab", -1, take_pads },
	{ "window_size", CONFIG_window_size, take_window },
	{ "merge_file", -1, take_tokenizer },
	{ "tokenizer_type", -1, take_tokenizer },
	{ "vocab_file", -1, take_word_pieces },
	{ "bert_no_binary_head", CONFIG_bert_binary_head, take_not },
	{ "cuda_graph_scope", CONFIG_cuda_graph_modules, NULL },
	{ "moe_enable_deepep", CONFIG_moe_flex_dispatcher_backend, take_ignore },
	{ "rampup_batch_size", -1, take_schedule },
	{ "step_batch_size_schedule", -1, take_schedule },
};

enum default_of { DEFAULT_ANY, DEFAULT_EXPERTS, DEFAULT_LATENT, DEFAULT_HYBRID, DEFAULT_DELTA_NET };

static const struct {
	enum default_of of;
	enum config_field field;
	const char *value;
} defaults[] = {
#define DEFAULT(of, field, value) { DEFAULT_##of, CONFIG_##field, value },
#include "readers/megatron_defaults.def"
#undef DEFAULT
};

static const struct {
	const char *key, *harmless, *what;
} unmodelled[] = {
#define UNMODELLED(key, harmless, what) { #key, harmless, what },
#include "readers/megatron_arguments.def"
#undef UNMODELLED
};

/* Returns 1 if the argument is an UNMODELLED of megatron_arguments.def, 0 if not, -1: failed. */
static int take_unmodelled(struct reader *r, const char *key, const char *value)
{
	size_t i = 0;

	if (megatron_names_hybrid(key, value)) {
		mark(r, HYBRID);
		return 1;
	}
	if (megatron_names_mimo(key, value)) {
		mark(r, MIMO);
		return 1;
	}
	if (!strncmp(key, "retro_", 6) && !is_off(value))
		return reader_put_unmodelled(r, r->origin, "RETRO") ? -1 : 1;
	while (i < ARRAY_SIZE(unmodelled) && strcmp(unmodelled[i].key, key))
		i++;
	if (i == ARRAY_SIZE(unmodelled))
		return 0;
	if (is_off(value) || !strcmp(value, unmodelled[i].harmless))
		return 1;
	return reader_put_unmodelled(r, r->origin, unmodelled[i].what) ? -1 : 1;
}

int megatron_read_script(struct reader *r, const char *script)
{
	static const char *const others[] = { "retro", "ict", "vision" };

	if (!strncmp(script, "pretrain_bert", 13) || !strncmp(script, "pretrain_t5", 11))
		return config_set_default(r->c, CONFIG_model_type, script[9] == 'b' ? "bert" : "t5",
					  script, r->e);
	if (!strncmp(script, "pretrain_hybrid", 15) || !strncmp(script, "pretrain_mamba", 14))
		return config_set_default(r->c, CONFIG_model_type, "hybrid", script, r->e);
	if (!strncmp(script, "pretrain_vlm", 12) || !strncmp(script, "pretrain_mimo", 13))
		return config_set_default(r->c, CONFIG_model_type,
					  script[9] == 'v' ? "llava" : "mimo", script, r->e);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (!strncmp(script, "pretrain_", 9) &&
		    !strncmp(script + 9, others[i], strlen(others[i])))
			return reader_put_unmodelled(r, script, "another model than a GPT");
	return 0;
}

/* A key without a row: the name of a field, "no_" and the name of a field, or an argument without
 * effect. */
static const char *const names[] = {
#define ARGUMENTS
#include "readers/megatron_arguments.def"
#undef ARGUMENTS
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int is_argument(const char *key)
{
	return bsearch(&key, names, ARRAY_SIZE(names), sizeof(char *), by_name) != NULL;
}

static int unknown(struct reader *r, const char *key, const char *value)
{
	int field = config_find(key), taken = take_unmodelled(r, key, value);

	if (taken)
		return taken < 0 ? -1 : 0;
	if (field >= 0)
		return reader_put(r, field, value);
	if (key[0] == '_') { /* Megatron-Bridge's "_target_" names a class */
		mark(r, BRIDGE);
		return 0;
	}
	if (!strncmp(key, "no_", 3)) {
		field = config_find(key + 3);
		if (field >= 0 && !strcmp(config_type(field), "BOOL"))
			return take_not(r, field, value);
	}
	if (!is_argument(key))
		config_note(r->c, "%s: unknown key %s", r->origin, key);
	return 0;
}

static const struct key_table table = { rows, ARRAY_SIZE(rows), 0, unknown };
static const struct key_table top = { rows, ARRAY_SIZE(rows), 1,
				      unknown }; /* "optimizer" is a section */

int megatron_read_key(struct reader *r, const char *key, const char *value)
{
	return reader_read_key(r, &table, key, value);
}

int megatron_has_key(const char *key)
{
	return key_row_find(rows, ARRAY_SIZE(rows), key) != NULL || is_argument(key);
}

static int put_defaults(struct reader *r, unsigned seen)
{
	static const char origin[] = "Megatron-LM's default";
	struct config *c = r->c;

	r->origin = "Megatron-LM";
	r->key = "framework";
	if (reader_put(r, CONFIG_framework, "megatron-core"))
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		if ((defaults[i].of != DEFAULT_EXPERTS || c->num_experts > 0) &&
		    (defaults[i].of != DEFAULT_LATENT || c->multi_latent_attention) &&
		    (defaults[i].of != DEFAULT_HYBRID || c->hybrid_layer_pattern) &&
		    (defaults[i].of != DEFAULT_DELTA_NET || c->experimental_attention_variant) &&
		    config_set_default(c, defaults[i].field, defaults[i].value, origin, r->e))
			return -1;
	if (seen & TOKENIZER_GPT2 && !config_has(c, CONFIG_padded_vocab_size) &&
	    config_set_default(c, CONFIG_vocab_size, "50257", "GPT-2's tokenizer", r->e))
		return -1;
	return 0;
}

/* The rules of Megatron-LM that relate several arguments. */
static int finish(struct reader *r, unsigned seen, int is_command)
{
	struct config *c = r->c;

	c->from_framework = 1;
	/* On a command line --num-query-groups has an effect only with --group-query-attention; its
	 * default is then 1. */
	if (is_command && !(seen & GROUP_QUERY) && config_has(c, CONFIG_num_query_groups) &&
	    !strncmp(c->origin[CONFIG_num_query_groups], "--", 2)) {
		config_note(c, "--num-query-groups is ignored without --group-query-attention");
		config_unset(c, CONFIG_num_query_groups);
	}
	if (seen & GROUP_QUERY &&
	    config_set_default(c, CONFIG_num_query_groups, "1", "Megatron-LM's default", r->e))
		return -1;
	if (megatron_name_model(r, seen))
		return -1;
	/* Megatron-Bridge pads the vocabulary only with should_pad_vocab. */
	if (seen & BRIDGE && !(seen & PADS) && config_has(c, CONFIG_vocab_size) &&
	    !config_has(c, CONFIG_padded_vocab_size) &&
	    config_set_int(c, CONFIG_padded_vocab_size, c->vocab_size, "should_pad_vocab is false",
			   r->e))
		return -1;
	return put_defaults(r, seen);
}

int config_read_megatron(struct reader *r, const struct flags *f)
{
	const struct flag *yaml = flags_find(f, "yaml_cfg");
	unsigned seen = 0;

	if (yaml && yaml->value && r->read_file(r, yaml->value, 0))
		return -1;
	r->state = &seen;
	for (size_t i = 0; i < f->count; i++) {
		const struct flag *flag = &f->at[i];

		r->origin = flag->written;
		if (flag->key[0] && megatron_read_key(r, flag->key, flag_value(flag)))
			return -1;
	}
	return finish(r, seen, 1);
}

/* The sections of Megatron-LM (language_model, model_parallel) and of Megatron-Bridge (model,
 * train, ddp
 * ...) are one name space. */
int config_read_megatron_yaml(struct reader *r, const struct doc_node *root, const char *name)
{
	static const char *const ignored[] = { "dataset",    "scheduler",           "logger",
					       "checkpoint", "profiling",           "rng",
					       "tokenizer",  "rerun_state_machine", "straggler",
					       "ft",         "nvrx_straggler" };
	unsigned seen = 0;

	r->state = &seen;
	if (reader_read_map(r, &top, root, name))
		return -1;
	for (const struct doc_node *n = root->first; n; n = n->next) {
		int skip = 0;

		for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
			skip |= n->key && !strcmp(n->key, ignored[i]);
		if (n->kind != DOC_MAP || skip)
			continue;
		if (reader_read_map(r, &table, n, name))
			return -1;
	}
	return finish(r, seen, 0);
}

int megatron_knows(const struct flags *f)
{
	static const char *const telling[] = { "tensor_model_parallel_size",
					       "pipeline_model_parallel_size",
					       "num_layers",
					       "hidden_size",
					       "micro_batch_size",
					       "use_mcore_models",
					       "yaml_cfg",
					       "transformer_impl" };
	int found = 0;

	for (size_t i = 0; i < ARRAY_SIZE(telling); i++)
		found += flags_find(f, telling[i]) != NULL;
	return found >= 2 || flags_find(f, "yaml_cfg");
}
