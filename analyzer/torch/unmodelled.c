/* Options of a job that this system does not model. If they change many bytes, the estimate is
 * refused; others get a note. */
#include "torch/unmodelled.h"

#include <stdio.h>
#include <string.h>

#include "util/util.h"

struct unmodelled_option {
	enum config_field field;
	const char *what;
};

static const struct unmodelled_option stops[] = {
	{ CONFIG_cpu_offloading, "activations in host memory" },
	{ CONFIG_optimizer_cpu_offload, "optimizer states in host memory" },
	{ CONFIG_use_precision_aware_optimizer, "optimizer states of other types" },
	{ CONFIG_fp32_residual_connection, "fp32 residuals" },
	{ CONFIG_distribute_saved_activations, "sharded checkpoints" },
	{ CONFIG_partition_activations, "sharded checkpoints" },
	{ CONFIG_cpu_checkpointing, "checkpoints in host memory" },
	{ CONFIG_zero_quantized_weights, "ZeRO++'s quantized weights" },
	{ CONFIG_zero_quantized_gradients, "ZeRO++'s quantized gradients" },
	{ CONFIG_use_liger_kernel, "Liger's kernels" },
}, notes[] = {
	{ CONFIG_torch_compile, "torch.compile's fused kernels" },
	{ CONFIG_tp_comm_overlap, "user buffers of overlapped tensor parallelism" },
	{ CONFIG_use_nccl_ub, "NCCL's user buffers" },
};

static void note_options(const struct unmodelled_option *options, size_t count, struct inputs *in)
{
	for (size_t i = 0; i < count; i++)
		if (input_flag(in, options[i].field, 0))
			estimate_note(in->out, "%s (%s): not counted", options[i].what,
				      config_name(options[i].field));
}

/* A property that a family's blocks never have, or always have; the other value is another model.
 */
struct trait {
	enum config_field field;
	int other;
	const char *expected;
};

static void check_traits(const struct trait *traits, size_t count, struct inputs *in)
{
	for (size_t i = 0; i < count; i++)
		if (traits[i].other)
			input_reject(in, traits[i].field, traits[i].expected);
}

static void check_gpt(const struct hparams *s, struct inputs *in)
{
	const struct trait traits[] = {
		{ CONFIG_swiglu, s->gated, "false: nanoGPT's feed-forward layers have no gate" },
		{ CONFIG_num_query_groups, s->groups != s->heads,
		  "num_attention_heads: nanoGPT's heads share nothing" },
		{ CONFIG_kv_channels, s->heads * s->head != s->hidden,
		  "hidden_size / num_attention_heads with nanoGPT" },
		{ CONFIG_normalization, s->rms_norm, "LayerNorm with nanoGPT" },
		{ CONFIG_position_embedding_type, !s->learned_positions,
		  "learned_absolute with nanoGPT" },
		{ CONFIG_untie_embeddings_and_output_weights, s->untied, "false with nanoGPT" },
		{ CONFIG_add_qkv_bias, s->qkv_bias && !s->linear_bias,
		  "the same as add_bias_linear with nanoGPT" },
		{ CONFIG_num_experts, s->experts > 0, "none: nanoGPT is dense" },
	};

	check_traits(traits, ARRAY_SIZE(traits), in);
}

static void check_llama(const struct hparams *s, struct inputs *in)
{
	const struct trait traits[] = {
		{ CONFIG_arch, !strcmp(VALUE_OR(in->c, arch, "llama"), "gpt"),
		  "llama: of transformers' models those of Llama's kind are modelled" },
		{ CONFIG_swiglu, !s->gated, "true with Llama" },
		{ CONFIG_normalization, !s->rms_norm, "RMSNorm with Llama" },
		{ CONFIG_position_embedding_type, !s->rope, "rope with Llama" },
		{ CONFIG_add_bias_linear, s->linear_bias,
		  "false with Llama: add_qkv_bias is Qwen2's" },
	};

	check_traits(traits, ARRAY_SIZE(traits), in);
}

/* Megatron's options, which are not modelled with other frameworks. */
static void check_megatron_only(const struct hparams *s, struct inputs *in)
{
	static const struct unmodelled_option fusions[] = {
		{ CONFIG_cross_entropy_loss_fusion, "the fused cross entropy" },
		{ CONFIG_gradient_accumulation_fusion, "weight gradients added in place" },
		{ CONFIG_overlap_grad_reduce, "buckets of overlapped reductions" },
		{ CONFIG_defer_embedding_wgrad_compute, "the embedding's late gradient" },
	};
	const struct config *c = in->c;
	const struct trait traits[] = {
		{ CONFIG_unmodelled_options, GIVEN(c, unmodelled_options),
		  "none: not modelled yet" },
		{ CONFIG_fine_grained_activation_offloading,
		  VALUE_OR(c, fine_grained_activation_offloading, 0),
		  "false: activations in host memory are Megatron-core's" },
		{ CONFIG_mtp_num_layers, s->mtp > 0,
		  "0: multi-token prediction is not modelled yet" },
		{ CONFIG_pipeline_model_parallel_layout, GIVEN(c, pipeline_model_parallel_layout),
		  "none: stages of the same number of layers" },
		{ CONFIG_multi_latent_attention, VALUE_OR(c, multi_latent_attention, 0),
		  "false: latent attention: not modelled yet" },
		{ CONFIG_experimental_attention_variant, GIVEN(c, experimental_attention_variant),
		  "none: gated delta nets are Megatron-core's" },
		{ CONFIG_attention_output_gate, VALUE_OR(c, attention_output_gate, 0),
		  "false: gated attention is Megatron-core's" },
		{ CONFIG_qk_layernorm, s->qk_norm && s->family != LLAMA,
		  "false: normalized queries and keys: not modelled yet" },
		{ CONFIG_decoder_first_pipeline_num_layers,
		  GIVEN(c, decoder_first_pipeline_num_layers),
		  "none: stages of the same number of layers" },
		{ CONFIG_decoder_last_pipeline_num_layers,
		  GIVEN(c, decoder_last_pipeline_num_layers),
		  "none: stages of the same number of layers" },
		{ CONFIG_recompute_granularity, s->recompute == RECOMPUTE_SELECTIVE,
		  "full: selective recomputation is Megatron-core's" },
		{ CONFIG_expert_model_parallel_size, s->ep > 1,
		  "1: experts are split by Megatron-core alone" },
	};

	note_options(fusions, ARRAY_SIZE(fusions), in);
	check_traits(traits, ARRAY_SIZE(traits), in);
}

static void check_mlp(const struct hparams *s, struct inputs *in)
{
	const struct trait traits[] = {
		{ CONFIG_recompute_granularity, s->recompute > 0,
		  "none: feed-forward blocks keep what they make" },
		{ CONFIG_swiglu, s->gated, "false: the feed-forward blocks have no gate" },
		{ CONFIG_num_experts, s->experts > 0, "none: the feed-forward blocks are dense" },
	};

	check_traits(traits, ARRAY_SIZE(traits), in);
}

static int is_word(const char *word, const char *expected)
{
	return word && !strcmp(word, expected);
}

/* Rejects the list "a,b" if one of its words is not known. */
static void check_modules(const char *list, const char *const *known, size_t count,
			  enum config_field field, const char *expected, struct inputs *in)
{
	for (const char *word = list; *word;) {
		size_t length = strcspn(word, ","), i = 0;

		while (i < count &&
		       (strlen(known[i]) != length || strncmp(word, known[i], length) != 0))
			i++;
		if (i == count) {
			input_reject(in, field, expected);
			return;
		}
		word += length + (word[length] == ',');
	}
}

static void check_parts(const struct hparams *s, struct inputs *in)
{
	static const char *const again[] = {
#define RECOMPUTED(field, word) word,
#include "torch/modules.def"
	};
	static const char *const moved[] = {
#define OFFLOADED(name, word) word,
#include "torch/modules.def"
	};
	static const char *const graphed[] = { "attn", "mlp", "moe_router", "moe_preprocess" };
	const int all = s->framework == MEGATRON;

	if (s->recompute == RECOMPUTE_SELECTIVE && GIVEN(in->c, recompute_modules))
		check_modules(in->c->recompute_modules, again, all ? ARRAY_SIZE(again) : 1,
			      CONFIG_recompute_modules,
			      all ? "some of"
#define RECOMPUTED(field, word) " " word
#include "torch/modules.def"
				  : "core_attn",
			      in);
	if (s->offload)
		check_modules(in->c->offload_modules, moved, ARRAY_SIZE(moved),
			      CONFIG_offload_modules, "some of"
#define OFFLOADED(name, word) " " word
#include "torch/modules.def"
			      ,
			      in);
	if (s->graphs.on)
		check_modules(VALUE_OR(in->c, cuda_graph_modules, ""), graphed, ARRAY_SIZE(graphed),
			      CONFIG_cuda_graph_modules,
			      "some of attn, mlp, moe_router, moe_preprocess", in);
}

static void check_words(const struct hparams *s, struct inputs *in)
{
	const struct config *c = in->c;

	check_parts(s, in);
	if (s->recompute == RECOMPUTE_FULL && s->family != MEGATRON_CORE) {
		if (s->recompute_block)
			input_reject(in, CONFIG_recompute_method,
				     "uniform: the blocks of layers are Megatron-core's");
		if (s->recompute_layers != 1)
			input_reject(in, CONFIG_recompute_num_layers,
				     "1: the groups of layers are Megatron-core's");
	}
	if (GIVEN(c, normalization) && is_word(c->normalization, "L2Norm"))
		input_reject(in, CONFIG_normalization, "LayerNorm or RMSNorm");
	if (s->use_cache && !is_word(c->model_type, "gpt2"))
		input_reject(in, CONFIG_use_cache, "false: modelled for gpt2 alone");
	if (GIVEN(c, fp4_format))
		input_reject(in, CONFIG_fp4_format, "none: fp4 is not modelled yet");
	if (!has_engine(s) && s->offload_optimizer)
		input_reject(in, CONFIG_offload_optimizer, "none without DeepSpeed");
	if (s->wrapper != ZERO3 && s->offload_param)
		input_reject(in, CONFIG_offload_param, "none without DeepSpeed's ZeRO-3");
	if (s->wrapper == FSDP1 || (has_engine(s) && s->overlap) || s->offload)
		estimate_note(
			in->out,
			"reserved_bytes is the most: blocks that another stream used "
			"(record_stream) come back as late as the host can see it, on a GPU earlier");
	if (s->one_unit && s->wrapper == FSDP2)
		input_reject(in, CONFIG_fsdp_units,
			     "blocks, or fsdp_version 1: fully_shard of the model "
			     "as one unit is not modelled yet");
	if (s->framework == MEGATRON && !VALUE_OR(c, attention_softmax_in_fp32, 1))
		estimate_note(in->out, "attention_softmax_in_fp32=false is counted as true");
}

int check_unmodelled(const struct hparams *s, struct inputs *in)
{
	for (size_t i = 0; i < ARRAY_SIZE(stops); i++)
		if (input_flag(in, stops[i].field, 0)) {
			char expected[96];

			snprintf(expected, sizeof(expected), "false: %s: not modelled yet",
				 stops[i].what);
			input_reject(in, stops[i].field, expected);
		}
	if (VALUE_OR(in->c, lora_rank, 0) > 0)
		input_reject(in, CONFIG_lora_rank, "0: LoRA is not modelled by a formula");
	note_options(notes, ARRAY_SIZE(notes), in);
	if (s->framework != MEGATRON)
		check_megatron_only(s, in);
	check_words(s, in);
	if (s->family == GPT)
		check_gpt(s, in);
	else if (s->family == LLAMA)
		check_llama(s, in);
	else if (s->family == MLP)
		check_mlp(s, in);
	return in->failed ? -1 : 0;
}
