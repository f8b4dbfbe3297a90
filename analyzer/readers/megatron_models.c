#include "readers/megatron_models.h"

#include <string.h>

/* The sizes of the public files of BERT's word pieces, with the tokens that Megatron-LM adds: one
 * for the beginning of a sequence, one for its end, and vocab_extra_ids. */
static int set_word_pieces(struct reader *r, unsigned seen)
{
	struct config *c = r->c;
	int64_t pieces = seen & CASED ? 28996 : 30522;

	if (config_has(c, CONFIG_vocab_size) || config_has(c, CONFIG_padded_vocab_size))
		return 0;
	pieces += 2 + (config_has(c, CONFIG_vocab_extra_ids) ? c->vocab_extra_ids : 0);
	config_note(c, "vocab_size is %lld: BERT's public word pieces", (long long)pieces);
	return config_set_int(c, CONFIG_vocab_size, pieces, "BERT's word pieces", r->e);
}

static int is_named(const struct config *c, const char *type)
{
	return config_has(c, CONFIG_model_type) && !strcmp(c->model_type, type);
}

/* pretrain_vlm.py: only LLaVA has images. Its language model never ties its embeddings. */
static int is_llava(const struct config *c)
{
	return config_has(c, CONFIG_img_h) || is_named(c, "llava");
}

static int name_llava(struct reader *r)
{
	static const struct {
		enum config_field field;
		const char *value;
	} all[] = { { CONFIG_model_type, "llava" },
		    { CONFIG_untie_embeddings_and_output_weights, "true" },
		    { CONFIG_img_h, "224" },
		    { CONFIG_img_w, "224" },
		    { CONFIG_patch_dim, "16" } };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (config_set_default(r->c, all[i].field, all[i].value, "pretrain_vlm.py", r->e))
			return -1;
	if (config_has(r->c, CONFIG_dataloader_seq_length) &&
	    config_set_int(r->c, CONFIG_seq_length, r->c->dataloader_seq_length,
			   r->c->origin[CONFIG_dataloader_seq_length], r->e))
		return -1;
	return 0;
}

int megatron_names_mimo(const char *key, const char *value)
{
	return (!strcmp(key, "model_provider") || !strcmp(key, "dataset_provider")) &&
	       !strcmp(value, "llava_vlm");
}

/* examples/mimo/model_providers/llava_vlm.py: Vicuna-7B behind CLIP ViT-L/14, whatever sizes the
 * command line has; only the projector is trained. */
static int name_mimo(struct reader *r)
{
	static const char origin[] = "examples/mimo: llava_vlm";
	static const struct {
		enum config_field field;
		const char *value;
	} all[] = { { CONFIG_model_type, "mimo" },
		    { CONFIG_num_layers, "32" },
		    { CONFIG_encoder_num_layers, "24" },
		    { CONFIG_hidden_size, "4096" },
		    { CONFIG_ffn_hidden_size, "11008" },
		    { CONFIG_num_attention_heads, "32" },
		    { CONFIG_num_query_groups, "32" },
		    { CONFIG_kv_channels, "128" },
		    { CONFIG_vocab_size, "32256" },
		    { CONFIG_padded_vocab_size, "32256" },
		    { CONFIG_max_position_embeddings, "4096" },
		    { CONFIG_position_embedding_type, "rope" },
		    { CONFIG_normalization, "RMSNorm" },
		    { CONFIG_swiglu, "true" },
		    { CONFIG_add_bias_linear, "false" },
		    { CONFIG_untie_embeddings_and_output_weights, "true" },
		    { CONFIG_attention_dropout, "0" },
		    { CONFIG_hidden_dropout, "0" },
		    { CONFIG_transformer_impl, "transformer_engine" },
		    { CONFIG_gradient_accumulation_fusion, "false" },
		    { CONFIG_freeze_LM, "true" },
		    { CONFIG_freeze_ViT, "true" } };
	static const enum config_field unused[] = { CONFIG_num_experts, CONFIG_mtp_num_layers,
						    CONFIG_fp8_format, CONFIG_recompute_granularity,
						    CONFIG_multi_latent_attention };
	struct config *c = r->c;

	for (size_t i = 0; i < ARRAY_SIZE(unused); i++)
		config_unset(c, unused[i]);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		config_unset(c, all[i].field);
		if (config_set_default(c, all[i].field, all[i].value, origin, r->e))
			return -1;
	}
	if (config_set_default(c, CONFIG_total_seq_length, "512", origin, r->e))
		return -1;
	return config_set_int(c, CONFIG_seq_length, c->total_seq_length,
			      c->origin[CONFIG_total_seq_length], r->e);
}

/* BERT and T5 have the same vocabularies; only T5's decoder has a sequence of its own. */
static int name_model(struct reader *r, unsigned seen)
{
	int t5 = config_has(r->c, CONFIG_decoder_seq_length);

	if (seen & MIMO)
		return name_mimo(r);
	if (is_named(r->c, "mimo"))
		return reader_put_unmodelled(r, "pretrain_mimo.py", "another model than llava_vlm");
	if (is_llava(r->c))
		return name_llava(r);
	if (!t5 && !(seen & WORD_PIECES) && !config_has(r->c, CONFIG_bert_binary_head))
		return 0;
	if (seen & WORD_PIECES && set_word_pieces(r, seen))
		return -1;
	return config_set_default(r->c, CONFIG_model_type, t5 ? "t5" : "bert", "Megatron-LM", r->e);
}

/* --encoder-num-layers, if it stands alone, is an old name of --num-layers. T5's encoder and
 * decoder have as many layers if one number alone is given. */
static int set_layers(struct config *c, struct err *e)
{
	int encoder = config_has(c, CONFIG_encoder_num_layers);

	if (encoder && !config_has(c, CONFIG_num_layers) &&
	    config_set_int(c, CONFIG_num_layers, c->encoder_num_layers,
			   c->origin[CONFIG_encoder_num_layers], e))
		return -1;
	if (!config_has(c, CONFIG_decoder_seq_length) && !is_llava(c) && !is_named(c, "mimo"))
		config_unset(c, CONFIG_encoder_num_layers);
	else if (!encoder && config_has(c, CONFIG_num_layers))
		return config_set_int(c, CONFIG_encoder_num_layers, c->num_layers,
				      c->origin[CONFIG_num_layers], e);
	return 0;
}

int megatron_names_hybrid(const char *key, const char *value)
{
	static const char *const stacks[] = { "hybrid_stack_spec", "mamba_stack_spec" };

	if (!strcmp(key, "model_provider"))
		return !strcmp(value, "hybrid") || !strcmp(value, "mamba");
	if (!strcmp(key, "is_hybrid_model"))
		return parse_bool(value) == 1;
	for (size_t i = 0; !strcmp(key, "spec") && i < ARRAY_SIZE(stacks); i++) {
		size_t length = strcspn(value, "]"), own = strlen(stacks[i]);

		if (length > own && !strncmp(value + length - own, stacks[i], own) &&
		    strchr(" ,", value[length - own - 1]))
			return 1;
	}
	return 0;
}

/* --use-checkpoint-args takes the sizes of a checkpoint, which those of a command line repeat. */
static int check_checkpoint(struct reader *r)
{
	static const enum config_field sizes[] = { CONFIG_num_layers, CONFIG_hidden_size,
						   CONFIG_num_attention_heads };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (!config_has(r->c, sizes[i]))
			return reader_put_unmodelled(r, "--use-checkpoint-args",
						     "sizes that stand in a checkpoint");
	config_note(r->c, "--use-checkpoint-args: the checkpoint is taken to have the sizes of "
			  "the command line");
	return 0;
}

int megatron_name_model(struct reader *r, unsigned signs)
{
	if (signs & CHECKPOINT_SIZES && check_checkpoint(r))
		return -1;
	if (signs & HYBRID &&
	    config_set_default(r->c, CONFIG_model_type, "hybrid", "Megatron-LM", r->e))
		return -1;
	return name_model(r, signs) || set_layers(r->c, r->e) ? -1 : 0;
}
