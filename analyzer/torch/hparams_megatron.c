#include "torch/hparams_megatron.h"

#include "util/util.h"

/* With latent attention a query head has two parts: without and with rotary positions. */
void hparams_read_latent(struct hparams *s, struct inputs *in)
{
	s->value_head = s->head;
	if (s->framework != MEGATRON || !input_flag(in, CONFIG_multi_latent_attention, 0))
		return;
	s->latent.q_rank = (int64_t)input_or_zero(in, CONFIG_q_lora_rank, 0, MAX_WIDTH);
	s->latent.kv_rank = (int64_t)input_or(in, CONFIG_kv_lora_rank, 512, MAX_WIDTH);
	s->latent.nope = (int64_t)input_or(in, CONFIG_qk_head_dim, 128, MAX_WIDTH);
	s->latent.rope = (int64_t)input_or(in, CONFIG_qk_pos_emb_head_dim, 64, MAX_WIDTH);
	s->latent.value = (int64_t)input_or(in, CONFIG_v_head_dim, 128, MAX_WIDTH);
	s->latent.yarn = !GIVEN(in->c, rope_type) || !strcmp(in->c->rope_type, "yarn");
	s->head = s->latent.nope + s->latent.rope;
	s->value_head = s->latent.value;
	s->groups = s->heads;
}

/* model_provider() of pretrain_vlm.py: an image is one more token of the text, and is replaced by
 * those of its patches. The language model has positions for all of them, and no more. */
void hparams_read_llava(struct hparams *s, struct inputs *in)
{
	int64_t height = (int64_t)input_or(in, CONFIG_img_h, 224, MAX_WIDTH);
	int64_t width = (int64_t)input_or(in, CONFIG_img_w, 224, MAX_WIDTH);

	s->vision.patch = (int64_t)input_or(in, CONFIG_patch_dim, 16, MAX_WIDTH);
	s->vision.layers = (int64_t)input_or(in, CONFIG_encoder_num_layers, s->layers, MAX_LAYERS);
	s->vision.drops_class = input_flag(in, CONFIG_disable_vision_class_token, 0);
	s->vision.frozen = input_flag(in, CONFIG_freeze_ViT, 0);
	s->vision.language_frozen = input_flag(in, CONFIG_freeze_LM, 0);
	if (height % s->vision.patch || width % s->vision.patch)
		input_reject(in, CONFIG_patch_dim, "a divisor of img_h and img_w");
	if (3 * (wide)s->batch * height * width > (wide)1 << 48 ||
	    3 * (wide)s->hidden * s->vision.patch * s->vision.patch > (wide)1 << 48)
		input_reject(in, CONFIG_img_h, "images of at most 2^48 numbers in a batch");
	s->vision.pixels = height * width;
	s->vision.patches = (height / s->vision.patch) * (width / s->vision.patch);
	s->vision.text =
		(int64_t)input_or(in, CONFIG_dataloader_seq_length, s->tokens, MAX_TOKENS) + 1;
	s->tokens = s->vision.text - 1 + s->vision.patches + !s->vision.drops_class;
	s->positions = s->tokens;
	s->untied = 1;
}

/* examples/mimo: each sequence has one image of openai/clip-vit-large-patch14-336, without the
 * class's token, and is padded to total_seq_length. */
void hparams_read_mimo(struct hparams *s, struct inputs *in)
{
	s->vision.by_transformers = s->vision.drops_class = 1;
	s->vision.frozen = s->vision.language_frozen = 1;
	s->vision.patch = 14;
	s->vision.layers = 24;
	s->vision.pixels = 336 * 336;
	s->vision.patches = 24 * 24;
	s->vision.text = s->tokens - s->vision.patches;
	if (s->vision.text <= 0)
		input_reject(in, CONFIG_total_seq_length, "more than the 576 tokens of an image");
}

/* The numbers are those of Megatron-core's TransformerConfig; a Mamba layer is twice as wide. */
void hparams_read_hybrid(struct hparams *s, struct inputs *in)
{
	s->pattern = GIVEN(in->c, hybrid_layer_pattern) ? in->c->hybrid_layer_pattern : NULL;
	s->mamba.head = (int64_t)input_or(in, CONFIG_mamba_head_dim, 64, MAX_WIDTH);
	s->mamba.heads = (int64_t)input_or(in, CONFIG_mamba_num_heads,
					   largest(2 * s->hidden / s->mamba.head, 1), MAX_HEADS);
	s->mamba.state = (int64_t)input_or(in, CONFIG_mamba_state_dim, 128, MAX_WIDTH);
	s->mamba.groups = (int64_t)input_or(in, CONFIG_mamba_num_groups, 8, MAX_HEADS);
}

/* The numbers are those of Megatron-core's TransformerConfig. */
void hparams_read_delta_net(struct hparams *s, struct inputs *in)
{
	struct delta_net *d = &s->delta;

	s->output_gate = input_flag(in, CONFIG_attention_output_gate, 0);
	if (!GIVEN(in->c, experimental_attention_variant))
		return;
	d->taps = (int64_t)input_or(in, CONFIG_linear_conv_kernel_dim, 4, MAX_WIDTH);
	d->key = (int64_t)input_or(in, CONFIG_linear_key_head_dim, 128, MAX_WIDTH);
	d->value = (int64_t)input_or(in, CONFIG_linear_value_head_dim, 128, MAX_WIDTH);
	d->key_heads = (int64_t)input_or(in, CONFIG_linear_num_key_heads, 16, MAX_HEADS);
	d->value_heads = (int64_t)input_or(in, CONFIG_linear_num_value_heads, 32, MAX_HEADS);
}
