#include "torch/hparams.h"

#include "config/parameter_count.h"
#include "torch/hparams_megatron.h"

#include <string.h>

static const struct framework_row frameworks[] = {
#define FRAMEWORK(kind, ...) [kind] = { __VA_ARGS__ },
#include "torch/frameworks.def"
#undef FRAMEWORK
};

enum framework framework_read(struct inputs *in)
{
	static const enum framework kinds[] = { MEGATRON,  NANOGPT, TRANSFORMERS,
						DEEPSPEED, TORCH,   TORCH };

	return kinds[input_word(in, CONFIG_framework, 0,
				"megatron-core|nanogpt|transformers|deepspeed|torch|"
				"torchtitan")];
}

static void read_wrapper(struct hparams *s, struct inputs *in)
{
	static const enum wrapper_kind own[] = { MEGATRON_OWN, MEGATRON_FSDP2, MEGATRON_FSDP };
	enum wrapper_kind fsdp = input_or(in, CONFIG_fsdp_version, 2, 2) == 1 ? FSDP1 : FSDP2;
	int sharded =
		VALUE_OR(in->c, use_megatron_fsdp, 0) ? 2 : VALUE_OR(in->c, use_torch_fsdp2, 0);

	s->dp = (int64_t)input_or(in, CONFIG_data_parallel_size, 1, MAX_RANKS);
	s->zero = input_zero_stage(in, 0);
	s->wrapper = s->framework == MEGATRON    ? own[sharded]
		     : s->framework == DEEPSPEED ? (s->zero == 3 ? ZERO3 : ZERO)
		     : s->zero == 3              ? fsdp
		     : s->dp > 1                 ? DDP
						 : UNWRAPPED;
}

/* The family of a model without a framework of its own. A stack of feed-forward blocks has no
 * attention heads. */
static enum family family_of(const struct hparams *s, const struct config *c, const char *positions)
{
	if (s->defaults->family)
		return s->defaults->family;
	return !GIVEN(c, num_attention_heads)           ? MLP
	       : !strcmp(positions, "learned_absolute") ? GPT
							: LLAMA;
}

static void read_architecture(struct hparams *s, struct inputs *in)
{
	const struct config *c = in->c;
	int gpt = s->framework == NANOGPT || !strcmp(VALUE_OR(c, arch, "llama"), "gpt");
	const char *positions =
		VALUE_OR(c, position_embedding_type, gpt ? "learned_absolute" : "rope");
	int is_mlp;

	s->family = family_of(s, c, positions);
	is_mlp = s->family == MLP;
	s->layers = (int64_t)input_required(in, CONFIG_num_layers, MAX_LAYERS);
	s->hidden = (int64_t)input_required(in, CONFIG_hidden_size, MAX_WIDTH);
	s->heads = is_mlp ? 1 : (int64_t)input_required(in, CONFIG_num_attention_heads, MAX_HEADS);
	s->groups = (int64_t)input_or(in, CONFIG_num_query_groups, s->heads, MAX_HEADS);
	if (s->heads % s->groups && !is_mlp)
		input_reject(in, CONFIG_num_query_groups, "a divisor of num_attention_heads");
	s->head = (int64_t)input_or(in, CONFIG_kv_channels, s->hidden / s->heads, MAX_WIDTH);
	s->gated = input_flag(in, CONFIG_swiglu, !gpt);
	s->ffn = (int64_t)input_or(in, CONFIG_ffn_hidden_size,
				   s->gated ? 4 * s->hidden * 2 / 3 / 64 * 64 : 4 * s->hidden,
				   MAX_FFN);
	s->vocab = is_mlp || GIVEN(c, image_size) ? 1 : (int64_t)input_vocabulary(in);
	s->tokens = (int64_t)input_required(in, CONFIG_seq_length, MAX_TOKENS);
	s->positions = (int64_t)input_or(in, CONFIG_max_position_embeddings, s->tokens, MAX_TOKENS);
	s->batch = (int64_t)input_required(in, CONFIG_micro_batch_size, MAX_BATCH);
	s->learned_positions = !strcmp(positions, "learned_absolute");
	s->rope = !strcmp(positions, "rope") || !strcmp(positions, "yarn");
	s->rms_norm = !strcmp(VALUE_OR(c, normalization, gpt ? "LayerNorm" : "RMSNorm"), "RMSNorm");
	s->norm_bias = !s->rms_norm && input_flag(in, CONFIG_norm_bias, s->defaults->norm_bias);
	s->linear_bias = input_flag(in, CONFIG_add_bias_linear, gpt && s->defaults->linear_bias);
	s->qkv_bias = s->linear_bias || input_flag(in, CONFIG_add_qkv_bias, 0);
	s->untied = input_flag(in, CONFIG_untie_embeddings_and_output_weights, !gpt);
	s->qk_norm = input_flag(in, CONFIG_qk_layernorm, 0);
}

/* An encoder-decoder's seq_length is the encoder's. */
static void read_encoder(struct hparams *s, struct inputs *in)
{
	s->encoder_layers = (int64_t)input_required(in, CONFIG_encoder_num_layers, MAX_LAYERS);
	s->encoder_tokens = s->tokens;
	if (s->framework == MEGATRON) {
		s->tokens = (int64_t)input_required(in, CONFIG_decoder_seq_length, MAX_TOKENS);
	} else {
		s->tokens = (int64_t)input_or(in, CONFIG_decoder_seq_length, s->tokens, MAX_TOKENS);
		s->layers += s->encoder_layers;
	}
}

/* Models that have a type, and no family of their own. */
static void read_model_type(struct hparams *s, struct inputs *in)
{
	const char *type = VALUE_OR(in->c, model_type, "gpt");

	if (config_is_t5(type))
		read_encoder(s, in);
	if (GIVEN(in->c, image_size) && GIVEN(in->c, patch_size)) {
		s->image.side = in->c->image_size;
		s->image.patch = in->c->patch_size;
		s->image.channels = VALUE_OR(in->c, num_channels, 3);
	}
	if (s->framework != MEGATRON)
		return;
	if (!strcmp(type, "llava"))
		hparams_read_llava(s, in);
	if (!strcmp(type, "mimo"))
		hparams_read_mimo(s, in);
	s->is_bert = config_is_encoder(type);
	s->binary_head = s->is_bert && input_flag(in, CONFIG_bert_binary_head, 1);
	s->hybrid = !strcmp(type, "hybrid");
	if (s->hybrid)
		hparams_read_hybrid(s, in);
	hparams_read_delta_net(s, in);
}

/* Megatron-core's own attention has one implementation; Transformer Engine chooses one unless
 * --attention-backend is given. */
static void read_implementation(struct hparams *s, struct inputs *in)
{
	const struct config *c = in->c;

	s->training_loop = c->from_framework;
	s->fused_softmax = s->training_loop && input_flag(in, CONFIG_masked_softmax_fusion, 1);
	s->fused_rope = s->training_loop && input_flag(in, CONFIG_apply_rope_fusion, 1);
	s->deterministic = input_flag(in, CONFIG_deterministic_mode, 0);
	s->masks = input_flag(in, CONFIG_create_attention_mask_in_dataloader, 1);
	s->fused_swiglu = s->training_loop && input_flag(in, CONFIG_bias_swiglu_fusion, 1);
	s->fused_gelu = s->training_loop && input_flag(in, CONFIG_bias_gelu_fusion, 1) &&
			!input_flag(in, CONFIG_squared_relu, 0);
	s->fused_dropout = s->training_loop && input_flag(in, CONFIG_bias_dropout_fusion, 1);
	s->fused_squared_relu = input_flag(in, CONFIG_squared_relu, 0) &&
				input_flag(in, CONFIG_use_fused_weighted_squared_relu, 0);
	s->fused_loss = input_flag(in, CONFIG_cross_entropy_loss_fusion, 0);
	s->transformer_engine =
		!strcmp(VALUE_OR(c, transformer_impl, "local"), "transformer_engine");
	if (s->training_loop && !s->transformer_engine)
		s->attention = EAGER;
	else if (s->transformer_engine && s->attention != EAGER &&
		 (!GIVEN(c, attention) || strncmp(c->origin[CONFIG_attention], "--", 2)))
		s->attention = FUSED_ATTENTION;
}

static void read_attention(struct hparams *s, struct inputs *in)
{
	static const enum attention kinds[] = { EAGER, EAGER, SDPA, FLASH };
	int word = input_word(in, CONFIG_attention, -1, "eager|unfused|sdpa|flash");

	s->attention = word < 0 ? s->defaults->attention : kinds[word];
	if (s->framework == MEGATRON)
		read_implementation(s, in);
	hparams_read_latent(s, in);
	s->attention_dropout = VALUE_OR(in->c, attention_dropout, 0);
	s->hidden_dropout = VALUE_OR(in->c, hidden_dropout, 0);
	if (VALUE_OR(in->c, images_per_sequence, 0))
		input_reject(in, CONFIG_images_per_sequence, "0: a formula counts text alone");
	s->packed = s->attention != FLASH && input_flag(in, CONFIG_packed_sequences, 0);
	/* Trainer drops the model's outputs before the backward pass; a job whose model is a file
	 * of transformers has its loop. */
	s->keep_logits =
		input_flag(in, CONFIG_keep_logits, s->family != LLAMA || !in->c->from_framework);
	s->precise_outputs = input_flag(in, CONFIG_outputs_in_fp32, 0);
	s->use_cache = input_flag(in, CONFIG_use_cache, 0);
	s->mask_buffers = s->defaults->mask_buffers &&
			  input_flag(in, CONFIG_attention_mask_buffers, s->attention == EAGER);
}

/* The framework decides whether mixed precision keeps 16-bit weights beside fp32 masters, or
 * autocasts. */
static void read_widths(struct hparams *s, struct inputs *in)
{
	enum precision p = input_precision(in);
	int bf16 = p == PRECISION_BF16 || p == PRECISION_BF16_MIXED || p == PRECISION_BF16_AUTOCAST;
	enum dtype half = bf16 ? BF16 : F16;

	if (p == PRECISION_FP8 || p == PRECISION_FP8_MIXED)
		input_reject(in, CONFIG_precision,
			     "fp32, fp16, bf16, or one of them mixed or autocast: "
			     "fp8 is not modelled yet");
	s->sharded_compute = F32;
	if (is_fsdp(s) && (p == PRECISION_FP16_MIXED || p == PRECISION_BF16_MIXED)) {
		s->sharded_compute = half;
		p = PRECISION_FP32;
	}
	s->mixed = p == PRECISION_FP16_MIXED || p == PRECISION_BF16_MIXED;
	if (s->mixed && !s->defaults->masters) {
		s->mixed = 0;
		p = bf16 ? PRECISION_BF16_AUTOCAST : PRECISION_FP16_AUTOCAST;
	}
	s->autocast = p == PRECISION_FP16_AUTOCAST || p == PRECISION_BF16_AUTOCAST ? half : F32;
	s->weights = p == PRECISION_FP32 || s->autocast ? F32 : half;
	s->gradients = s->weights;
	if (s->mixed && input_flag(in, CONFIG_accumulate_allreduce_grads_in_fp32, bf16))
		s->gradients = F32;
	if (!s->sharded_compute)
		s->sharded_compute = s->weights;
	s->grad_scaler =
		input_flag(in, CONFIG_grad_scaler, s->autocast == F16 && s->defaults->grad_scaler);
}

/* Transformer Engine's fp8, with one scale for each tensor or for each block of values. */
static void read_fp8(struct hparams *s, struct inputs *in)
{
	const struct config *c = in->c;
	int ends = input_flag(in, CONFIG_first_last_layers_bf16, 0);

	s->fp8 = GIVEN(c, fp8_format);
	if (!s->fp8)
		return;
	if (!s->training_loop || !s->transformer_engine)
		input_reject(in, CONFIG_fp8_format,
			     "none: fp8 is modelled with Megatron-LM's command line alone");
	s->fp8_blocks =
		input_word(in, CONFIG_fp8_recipe, 0, "delayed|tensorwise|mxfp8|blockwise") > 1;
	s->fp8_weights = input_flag(in, CONFIG_fp8_param_gather, 0);
	if (s->fp8_weights && (s->fp8_blocks || VALUE_OR(c, num_experts, 0) > 0))
		input_reject(in, CONFIG_fp8_param_gather,
			     "false with experts, and with mxfp8 and blockwise: not modelled yet");
	s->bf16_first =
		(int64_t)input_or_zero(in, CONFIG_num_layers_at_start_in_bf16, ends, MAX_LAYERS);
	s->bf16_last =
		(int64_t)input_or_zero(in, CONFIG_num_layers_at_end_in_bf16, ends, MAX_LAYERS);
}

static void read_optimizer(struct hparams *s, struct inputs *in)
{
	static const enum implementation kinds[] = { FUSED, FOREACH, LOOP };
	static const enum optimizer_kind optimizers[] = {
		ADAM, ADAM, SGD,  RMSPROP,  ADAGRAD, ADAFACTOR, TRANSFORMERS_ADAFACTOR,
		LION, MUON, MUON, ADAM_8BIT
	};
	enum implementation otherwise = s->defaults->implementation;

	s->optimizer =
		optimizers[input_word(in, CONFIG_optimizer, 0,
				      "adam|adamw|sgd|rmsprop|adagrad|adafactor|"
				      "transformers-adafactor|lion|muon|dist_muon|adam8bit")];
	if (s->optimizer == ADAFACTOR)
		otherwise = LOOP;
	else if (s->optimizer == SGD || s->optimizer == RMSPROP || s->optimizer == ADAGRAD)
		otherwise = FOREACH;
	s->implementation = kinds[input_word(in, CONFIG_optimizer_implementation, otherwise,
					     "fused|foreach|loop")];
	s->nesterov = input_flag(in, CONFIG_nesterov, 0);
	s->keep_gradients = !input_flag(in, CONFIG_zero_grad_set_to_none, 1);
	s->momentum = VALUE_OR(in->c, momentum, 0);
	s->clip = VALUE_OR(in->c, clip_grad, s->defaults->clip);
}

/* Is `word` in the list? */
static int list_has(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += length)
		if ((at == list || at[-1] == ',') && (!at[length] || at[length] == ','))
			return 1;
	return 0;
}

static void read_recompute(struct hparams *s, struct inputs *in)
{
	const char *again = VALUE_OR(in->c, recompute_modules, "core_attn");
	const char *moved = VALUE_OR(in->c, offload_modules, "");
	int offloads = input_flag(in, CONFIG_fine_grained_activation_offloading, 0);

	s->recompute = input_word(in, CONFIG_recompute_granularity, -1, "selective|full") + 1;
	s->recompute_layers = (int64_t)input_or(in, CONFIG_recompute_num_layers, 1, MAX_LAYERS);
#define RECOMPUTED(field, word) \
	s->field = s->recompute == RECOMPUTE_SELECTIVE && list_has(again, word);
#include "torch/modules.def"
	s->recompute_block = input_word(in, CONFIG_recompute_method, 0, "uniform|block");
#define OFFLOADED(name, word) s->offload |= (unsigned)(offloads && list_has(moved, word)) << name;
#include "torch/modules.def"
}

/* Transformer Engine's CUDA graphs, one for each layer and micro-batch. */
static void read_graphs(struct hparams *s, struct inputs *in)
{
	const char *modules = VALUE_OR(in->c, cuda_graph_modules, "");

	s->graphs.on = !strcmp(VALUE_OR(in->c, cuda_graph_impl, "none"), "transformer_engine");
	if (!s->graphs.on && GIVEN(in->c, cuda_graph_impl) &&
	    strcmp(in->c->cuda_graph_impl, "none"))
		input_reject(in, CONFIG_cuda_graph_impl,
			     "none or transformer_engine: not modelled yet");
	if (!s->graphs.on)
		return;
	s->graphs.attention = list_has(modules, "attn");
	s->graphs.mlp = list_has(modules, "mlp");
	s->graphs.router = list_has(modules, "moe_router");
	s->graphs.warmup =
		(int64_t)input_or_zero(in, CONFIG_cuda_graph_warmup_steps, 3, MAX_TOKENS);
	if (!s->training_loop || !s->transformer_engine || s->recompute == RECOMPUTE_FULL ||
	    s->recompute_mlp || s->recompute_moe)
		input_reject(
			in, CONFIG_cuda_graph_impl,
			"none without Megatron-LM's command line and Transformer Engine, and with "
			"recomputed layers, mlp or moe: not modelled yet");
	if (!(s->graphs.attention || s->graphs.mlp || s->graphs.router))
		input_reject(in, CONFIG_cuda_graph_modules, "some of attn, mlp, moe_router");
}

static int is_offloaded(struct inputs *in, enum config_field field, const char *device)
{
	if (!config_has(in->c, field) || !strcmp(device, "none"))
		return 0;
	if (strcmp(device, "cpu"))
		input_reject(in, field, "cpu or none");
	return 1;
}

static void read_stages(struct hparams *s, struct inputs *in)
{
	const struct config *c = in->c;

	s->first_layers =
		(int64_t)input_or_zero(in, CONFIG_decoder_first_pipeline_num_layers, 0, MAX_LAYERS);
	s->last_layers =
		(int64_t)input_or_zero(in, CONFIG_decoder_last_pipeline_num_layers, 0, MAX_LAYERS);
	s->counts_embedding = input_flag(in, CONFIG_account_for_embedding_in_pipeline_split, 0);
	s->counts_loss = input_flag(in, CONFIG_account_for_loss_in_pipeline_split, 0);
	s->mtp = (int64_t)input_or_zero(in, CONFIG_mtp_num_layers, 0, MAX_LAYERS);
	s->mtp_repeated = input_flag(in, CONFIG_mtp_use_repeated_layer, 0);
	if (s->framework == MEGATRON && GIVEN(c, pipeline_model_parallel_layout) &&
	    *c->pipeline_model_parallel_layout && config_stages(c, &s->stages, in->e) < 0)
		in->failed = 1;
}

static void read_layout(struct hparams *s, struct inputs *in)
{
	const struct config *c = in->c;

	s->tp = (int64_t)input_or(in, CONFIG_tensor_model_parallel_size, 1, MAX_RANKS);
	s->pp = (int64_t)input_or(in, CONFIG_pipeline_model_parallel_size, 1, MAX_LAYERS);
	s->cp = (int64_t)input_or(in, CONFIG_context_parallel_size, 1, MAX_RANKS);
	s->ep = (int64_t)input_or(in, CONFIG_expert_model_parallel_size, 1, MAX_RANKS);
	s->etp = (int64_t)input_or(in, CONFIG_expert_tensor_parallel_size, s->tp, MAX_RANKS);
	s->vpp = (int64_t)input_or(in, CONFIG_virtual_pipeline_model_parallel_size, 1, MAX_LAYERS);
	s->group = (int64_t)input_or(in, CONFIG_microbatch_group_size_per_virtual_pipeline_stage,
				     s->pp, MAX_RANKS);
	s->overlap_warmup = input_flag(in, CONFIG_overlap_p2p_communication_warmup_flush, 0);
	s->overlap_grad_reduce = input_flag(in, CONFIG_overlap_grad_reduce, 0);
	s->bucket_size = (int64_t)input_or_zero(in, CONFIG_ddp_bucket_size, 0, INT64_MAX);
	s->instances =
		(int64_t)input_or(in, CONFIG_num_distributed_optimizer_instances, 1, MAX_RANKS);
	if (s->dp * s->cp % s->instances)
		input_reject(in, CONFIG_num_distributed_optimizer_instances,
			     "a divisor of the data-parallel size");
	s->fused_gradient =
		s->training_loop && input_flag(in, CONFIG_gradient_accumulation_fusion, 1);
	s->defers = input_flag(in, CONFIG_defer_embedding_wgrad_compute, 0);
	if (s->defers)
		s->deferred = (int64_t)input_or_zero(in, CONFIG_wgrad_deferral_limit, 0, MAX_RANKS);
	s->sequence_parallel = s->tp > 1 && VALUE_OR(c, sequence_parallel, 0);
	s->tp_overlap = s->sequence_parallel && s->transformer_engine &&
			input_flag(in, CONFIG_tp_comm_overlap, 0);
	s->bucket_cap = (int64_t)(VALUE_OR(c, ddp_bucket_cap_mb, 25) * (1 << 20));
	s->bucket_first = GIVEN(c, ddp_bucket_cap_mb) ? s->bucket_cap : 1 << 20;
	s->reshard = input_flag(in, CONFIG_reshard_after_forward, 1);
	/* The numbers are DeepSpeed's defaults (runtime/zero/config.py). */
	s->reduce_bucket =
		(int64_t)input_or(in, CONFIG_reduce_bucket_size, 500000000, (int64_t)1 << 40);
	s->overlap = input_flag(in, CONFIG_overlap_comm, s->zero == 3);
	s->offload_optimizer = is_offloaded(in, CONFIG_offload_optimizer, c->offload_optimizer);
	s->offload_param = is_offloaded(in, CONFIG_offload_param, c->offload_param);
	s->zero_init = input_flag(in, CONFIG_zero_init, 0) && s->zero == 3;
	s->prefetch_bucket = (int64_t)input_or_zero(in, CONFIG_stage3_prefetch_bucket_size,
						    50000000, MAX_PARAMETERS);
	s->max_live = (int64_t)input_or_zero(in, CONFIG_stage3_max_live_parameters, 1000000000,
					     MAX_PARAMETERS);
	s->max_reuse = (int64_t)input_or_zero(in, CONFIG_stage3_max_reuse_distance, 1000000000,
					      MAX_PARAMETERS);
	s->persistence = (int64_t)input_or_zero(in, CONFIG_stage3_param_persistence_threshold,
						100000, MAX_PARAMETERS);
	s->sub_group =
		(int64_t)input_or_zero(in, CONFIG_sub_group_size, 1000000000, MAX_PARAMETERS);
	s->one_unit = !strcmp(VALUE_OR(c, fsdp_units, "blocks"), "model");
	s->bucket_views = input_flag(in, CONFIG_gradient_as_bucket_view, 0);
	s->microbatches = (int64_t)input_microbatches(in, s->batch, s->dp);
	s->short_schedule = in->out->detail >= DETAIL_STAGES;
}

static void read_experts(struct hparams *s, struct inputs *in)
{
	const struct config *c = in->c;

	s->experts = (int64_t)input_or_zero(in, CONFIG_num_experts, 0, MAX_HEADS);
	s->capacity = VALUE_OR(c, moe_expert_capacity_factor, 0);
	s->pads_experts =
		s->capacity > 0 && input_flag(in, CONFIG_moe_pad_expert_input_to_capacity, 0);
	s->grouped = input_flag(in, CONFIG_moe_grouped_gemm, 0);
	s->allgather = !strcmp(VALUE_OR(c, moe_token_dispatcher_type, "allgather"), "allgather");
	s->experts_as = (enum experts_kind)input_word(in, CONFIG_experts_implementation, 0,
						      "grouped_mm|batched_mm|eager");
	s->norm_topk = input_flag(in, CONFIG_norm_topk_prob, 0);
	s->router_logits = input_flag(in, CONFIG_output_router_logits, 0);
	s->topk = (int64_t)input_or(in, CONFIG_moe_router_topk, 2, MAX_HEADS);
	if (s->experts && s->topk > s->experts && GIVEN(c, moe_router_topk))
		input_reject(in, CONFIG_moe_router_topk, "at most num_experts");
	s->expert_ffn = (int64_t)input_or(in, CONFIG_moe_ffn_hidden_size, s->ffn, MAX_FFN);
	s->expert_width = (int64_t)input_or_zero(in, CONFIG_moe_latent_size, 0, MAX_WIDTH);
	s->overlaps_experts = input_flag(in, CONFIG_overlap_moe_expert_parallel_comm, 0);
	s->fused_permutation = input_flag(in, CONFIG_moe_permute_fusion, 0);
	s->early_attention = input_flag(in, CONFIG_ep_overlap_early_attn_memory_release, 0);
	s->shared_ffn =
		(int64_t)input_or_zero(in, CONFIG_moe_shared_expert_intermediate_size, 0, MAX_FFN);
	s->shared_gate = input_flag(in, CONFIG_moe_shared_expert_gate, 0);
}

/* Megatron-LM's Muon does not use the distributed optimizer: each parameter is whole on one rank.
 */
static void read_layer_wise(struct hparams *s, struct inputs *in)
{
	if (s->framework != MEGATRON || s->optimizer != MUON)
		return;
	if (s->zero || !strcmp(in->c->optimizer, "dist_muon"))
		s->layer_wise = input_flag(in, CONFIG_use_layer_wise_param_layout, 1) ? BY_LAYOUT
										      : PING_PONG;
	s->zero = s->layer_wise == BY_LAYOUT;
}

static void check_experts(const struct hparams *s, struct inputs *in, wide rows)
{
	const wide width = largest(s->hidden, s->expert_width);
	const wide most = (wide)1 << 48, matrix = 2 * s->expert_ffn * width;
	const wide pairs = s->experts ? rows * s->topk : 0;
	const wide each =
		s->experts_as == EXPERTS_BATCHED ? matrix : 2 * largest(s->expert_ffn, width);

	if (s->experts * matrix > most || pairs * each > most)
		input_reject(in, CONFIG_num_experts,
			     "experts whose tensors have at most 2^48 elements");
	if (s->framework == TRANSFORMERS && s->experts_as == EXPERTS_EAGER &&
	    s->experts * s->layers > 100000)
		input_reject(in, CONFIG_num_experts,
			     "at most 100000 experts in all layers together");
}

/* Rejects tensors of more than 2^48 elements, so that sums of bytes stay far below 2^63. */
static void check_products(const struct hparams *s, struct inputs *in)
{
	const wide most = (wide)1 << 48, tokens = largest(s->tokens, s->encoder_tokens);
	const wide rows = s->batch * tokens;
	const wide width = largest(largest(s->hidden, s->ffn), (wide)s->heads * s->head);

	if (rows * s->heads * tokens > most || rows * s->vocab > most || 8 * rows * width > most)
		input_reject(in, CONFIG_micro_batch_size,
			     "a batch whose tensors have at most 2^48 elements");
	check_experts(s, in, rows);
	if (8 * width * width > most || width * s->vocab > most || width * s->positions > most)
		input_reject(in, CONFIG_hidden_size,
			     "widths whose weights have at most 2^48 elements");
}

int hparams_read(struct hparams *s, struct inputs *in)
{
	memset(s, 0, sizeof(*s));
	s->config = in->c;
	s->framework = framework_read(in);
	s->defaults = &frameworks[s->framework];
	read_wrapper(s, in);
	read_architecture(s, in);
	read_model_type(s, in);
	read_attention(s, in);
	read_widths(s, in);
	read_fp8(s, in);
	read_optimizer(s, in);
	read_recompute(s, in);
	read_stages(s, in);
	read_layout(s, in);
	read_experts(s, in);
	read_layer_wise(s, in);
	read_graphs(s, in);
	if (!in->failed)
		check_products(s, in);
	return in->failed ? -1 : 0;
}
