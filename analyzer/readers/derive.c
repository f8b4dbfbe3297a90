#include "readers/derive.h"
#include "readers/hf.h"

#include <stdlib.h>
#include <string.h>

#include "config/parameter_count.h"
#include "config/pipeline_layout.h"
#include "util/util.h"

#define HAS(c, name) config_has(c, CONFIG_##name)

static int64_t one(const struct config *c, enum config_field f, int64_t value)
{
	return config_has(c, f) ? value : 1;
}

#define OR_ONE(c, name) one(c, CONFIG_##name, (c)->name)

static int is_megatron(const struct config *c)
{
	return HAS(c, framework) && !strcmp(c->framework, "megatron-core");
}

/* A product of sizes within their limits may still overflow: INT64_MAX then, which is above every
 * limit. */
static int64_t times(int64_t a, int64_t b)
{
	int64_t product;

	return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* GPUs of one model replica; the limits of limits.def keep the product below 2^63. */
static int64_t model_parallel(const struct config *c)
{
	return OR_ONE(c, tensor_model_parallel_size) * OR_ONE(c, pipeline_model_parallel_size) *
	       OR_ONE(c, context_parallel_size);
}

/* ---- derivations ---- */

static int derive_hybrid(struct config *c, struct err *e)
{
	(void)e;
	config_derive_hybrid(c);
	return 0;
}

static int derive_nodes(struct config *c, struct err *e)
{
	(void)e;
	if (!HAS(c, world_size) && HAS(c, num_nodes) && HAS(c, num_gpus_per_node))
		config_derived_int(c, CONFIG_world_size, c->num_nodes * c->num_gpus_per_node,
				   "num_nodes x num_gpus_per_node");
	return 0;
}

static int derive_data_parallel(struct config *c, struct err *e)
{
	int64_t model = model_parallel(c);

	if (!HAS(c, world_size)) {
		if (HAS(c, data_parallel_size))
			config_derived_int(c, CONFIG_world_size,
					   times(c->data_parallel_size, model),
					   "the product of the parallel sizes");
		return 0;
	}
	if (HAS(c, data_parallel_size) && times(c->data_parallel_size, model) != c->world_size)
		return err_set(
			e,
			"world_size %lld (%s) contradicts the parallel sizes: tensor %lld x pipeline %lld x context %lld x data %lld = %lld",
			(long long)c->world_size, c->origin[CONFIG_world_size],
			(long long)OR_ONE(c, tensor_model_parallel_size),
			(long long)OR_ONE(c, pipeline_model_parallel_size),
			(long long)OR_ONE(c, context_parallel_size),
			(long long)c->data_parallel_size,
			(long long)(times(c->data_parallel_size, model)));
	if (c->world_size % model)
		return err_set(
			e,
			"world_size %lld (%s) is not a multiple of tensor %lld x pipeline %lld x context %lld = %lld",
			(long long)c->world_size, c->origin[CONFIG_world_size],
			(long long)OR_ONE(c, tensor_model_parallel_size),
			(long long)OR_ONE(c, pipeline_model_parallel_size),
			(long long)OR_ONE(c, context_parallel_size), (long long)model);
	if (!HAS(c, data_parallel_size))
		config_derived_int(c, CONFIG_data_parallel_size, c->world_size / model,
				   "world_size / (tensor x pipeline x context)");
	return 0;
}

static int check_accumulation(const struct config *c, struct err *e)
{
	if (HAS(c, gradient_accumulation_steps) && HAS(c, num_microbatches) &&
	    c->gradient_accumulation_steps != c->num_microbatches &&
	    OR_ONE(c, pipeline_model_parallel_size) == 1)
		return err_set(
			e,
			"num_microbatches %lld (%s) contradicts gradient_accumulation_steps %lld (%s)",
			(long long)c->num_microbatches, c->origin[CONFIG_num_microbatches],
			(long long)c->gradient_accumulation_steps,
			c->origin[CONFIG_gradient_accumulation_steps]);
	return 0;
}

static int derive_microbatches(struct config *c, struct err *e)
{
	int64_t d = OR_ONE(c, data_parallel_size), each;

	if (check_accumulation(c, e))
		return -1;
	if (HAS(c, gradient_accumulation_steps) && !HAS(c, num_microbatches))
		config_derived_int(c, CONFIG_num_microbatches, c->gradient_accumulation_steps,
				   "gradient_accumulation_steps");
	if (!HAS(c, micro_batch_size) && HAS(c, global_batch_size) && HAS(c, num_microbatches) &&
	    c->global_batch_size % d == 0 && c->global_batch_size / d % c->num_microbatches == 0)
		config_derived_int(c, CONFIG_micro_batch_size,
				   c->global_batch_size / d / c->num_microbatches,
				   "global_batch_size / (data-parallel size x num_microbatches)");
	if (!HAS(c, micro_batch_size))
		return 0;
	each = times(c->micro_batch_size, d);
	if (!HAS(c, global_batch_size)) {
		/* Megatron's default is one micro-batch. */
		if (HAS(c, num_microbatches) &&
		    (HAS(c, data_parallel_size) || c->automatic[CONFIG_global_batch_size]))
			config_derived_int(
				c, CONFIG_global_batch_size, times(each, c->num_microbatches),
				"micro_batch_size x data-parallel size x num_microbatches");
		return 0;
	}
	if (HAS(c, num_microbatches)) {
		/* Without world_size the number of ranks that share the batch is unknown. */
		if (HAS(c, data_parallel_size) &&
		    times(each, c->num_microbatches) != c->global_batch_size)
			return err_set(
				e,
				"global_batch_size %lld (%s) contradicts micro_batch_size %lld x data-parallel size %lld x num_microbatches %lld = %lld",
				(long long)c->global_batch_size,
				c->origin[CONFIG_global_batch_size], (long long)c->micro_batch_size,
				(long long)d, (long long)c->num_microbatches,
				(long long)(times(each, c->num_microbatches)));
		return 0;
	}
	if (c->global_batch_size % each == 0) {
		config_derived_int(c, CONFIG_num_microbatches, c->global_batch_size / each,
				   "global_batch_size / (micro_batch_size x data-parallel size)");
		return 0;
	}
	if (c->from_framework)
		return err_set(
			e,
			"global_batch_size %lld (%s) is not a multiple of micro_batch_size %lld x data-parallel size %lld",
			(long long)c->global_batch_size, c->origin[CONFIG_global_batch_size],
			(long long)c->micro_batch_size, (long long)d);
	config_note(
		c,
		"global_batch_size %lld is not a multiple of micro_batch_size %lld x data-parallel size %lld",
		(long long)c->global_batch_size, (long long)c->micro_batch_size, (long long)d);
	return 0;
}

static int derive_layout(struct config *c, struct err *e)
{
	struct stages stages;
	int64_t chunks;

	if (config_stages(c, &stages, e) < 0)
		return -1;
	chunks = stages.count / OR_ONE(c, pipeline_model_parallel_size);
	if (HAS(c, virtual_pipeline_model_parallel_size) &&
	    chunks != c->virtual_pipeline_model_parallel_size)
		return err_set(
			e,
			"pipeline_model_parallel_layout (%s) has %lld chunks a stage, virtual_pipeline_model_parallel_size is %lld (%s)",
			c->origin[CONFIG_pipeline_model_parallel_layout], (long long)chunks,
			(long long)c->virtual_pipeline_model_parallel_size,
			c->origin[CONFIG_virtual_pipeline_model_parallel_size]);
	if (chunks > 1 && !HAS(c, virtual_pipeline_model_parallel_size))
		config_derived_int(c, CONFIG_virtual_pipeline_model_parallel_size, chunks,
				   "the stages of pipeline_model_parallel_layout / pipeline");
	return 0;
}

static int derive_pipeline(struct config *c, struct err *e)
{
	int64_t stage, each = c->num_layers_per_virtual_pipeline_stage;

	if (HAS(c, pipeline_model_parallel_layout) && *c->pipeline_model_parallel_layout)
		return derive_layout(c, e);
	if (!HAS(c, num_layers_per_virtual_pipeline_stage) || !HAS(c, num_layers) ||
	    HAS(c, virtual_pipeline_model_parallel_size))
		return 0;
	/* The embedding and the loss may count as layers. */
	stage = c->num_layers + (c->account_for_embedding_in_pipeline_split != 0) +
		(c->account_for_loss_in_pipeline_split != 0);
	if (stage % (OR_ONE(c, pipeline_model_parallel_size) * each))
		return err_set(
			e,
			"num_layers %lld (%s) is not a multiple of pipeline_model_parallel_size %lld x num_layers_per_virtual_pipeline_stage %lld",
			(long long)stage, c->origin[CONFIG_num_layers],
			(long long)OR_ONE(c, pipeline_model_parallel_size), (long long)each);
	config_derived_int(c, CONFIG_virtual_pipeline_model_parallel_size,
			   stage / OR_ONE(c, pipeline_model_parallel_size) / each,
			   "num_layers / (pipeline x num_layers_per_virtual_pipeline_stage)");
	return 0;
}

static int derive_vocabulary(struct config *c, struct err *e)
{
	int64_t multiple = c->make_vocab_size_divisible_by * OR_ONE(c, tensor_model_parallel_size);

	(void)e;
	if (HAS(c, padded_vocab_size) && !HAS(c, vocab_size))
		config_derived_int(c, CONFIG_vocab_size, c->padded_vocab_size, "padded_vocab_size");
	if (HAS(c, padded_vocab_size) || !HAS(c, vocab_size) ||
	    !HAS(c, make_vocab_size_divisible_by))
		return 0;
	config_derived_int(c, CONFIG_padded_vocab_size, round_up(c->vocab_size, multiple),
			   "vocab_size padded to make_vocab_size_divisible_by x tensor");
	return 0;
}

/* Values that Megatron-LM itself derives (megatron/training/arguments.py). */
static int derive_megatron(struct config *c, struct err *e)
{
	int bf16 = HAS(c, precision) && !strncmp(c->precision, "bf16", 4);

	(void)e;
	if (!is_megatron(c))
		return 0;
	if (!HAS(c, ffn_hidden_size) && HAS(c, hidden_size))
		config_derived_int(c, CONFIG_ffn_hidden_size,
				   c->swiglu ? 4 * c->hidden_size * 2 / 3 / 64 * 64
					     : 4 * c->hidden_size,
				   c->swiglu ? "Megatron's SwiGLU rule, int(4h x 2/3 / 64) x 64"
					     : "4 x hidden_size");
	if (!HAS(c, kv_channels) && HAS(c, hidden_size) && c->num_attention_heads > 0 &&
	    c->hidden_size >= c->num_attention_heads)
		config_derived_int(c, CONFIG_kv_channels, c->hidden_size / c->num_attention_heads,
				   "hidden_size / num_attention_heads");
	if (bf16 && !HAS(c, accumulate_allreduce_grads_in_fp32) && c->from_framework)
		config_derived_text(c, CONFIG_accumulate_allreduce_grads_in_fp32,
				    c->grad_reduce_in_bf16 || (HAS(c, main_grads_dtype) &&
							       strcmp(c->main_grads_dtype, "fp32"))
					    ? "false"
					    : "true",
				    "Megatron-LM accumulates bf16's gradients in fp32");
	if (c->num_experts > 0 && !HAS(c, moe_ffn_hidden_size) && HAS(c, ffn_hidden_size))
		config_derived_int(c, CONFIG_moe_ffn_hidden_size, c->ffn_hidden_size,
				   "ffn_hidden_size");
	if (c->num_experts > 0 && !HAS(c, expert_tensor_parallel_size))
		config_derived_int(c, CONFIG_expert_tensor_parallel_size,
				   OR_ONE(c, tensor_model_parallel_size),
				   "tensor_model_parallel_size");
	return 0;
}

static int derive_sharding(struct config *c, struct err *e)
{
	static const char *const strategies[] = { "no_shard", "optim", "optim_grads",
						  "optim_grads_params" };
	int64_t stage = -1;
	const char *from = NULL;

	if (HAS(c, use_distributed_optimizer) && c->use_distributed_optimizer) {
		stage = 1;
		from = "use_distributed_optimizer";
	}
	if (c->use_megatron_fsdp)
		for (size_t i = 0; i < ARRAY_SIZE(strategies); i++)
			if (HAS(c, data_parallel_sharding_strategy) &&
			    !strcmp(c->data_parallel_sharding_strategy, strategies[i])) {
				stage = (int64_t)i;
				from = "data_parallel_sharding_strategy";
			}
	if (c->use_torch_fsdp2 || (HAS(c, fsdp) && c->fsdp)) {
		stage = 3;
		from = c->use_torch_fsdp2 ? "use_torch_fsdp2" : "fsdp";
	}
	if (stage < 0)
		return 0;
	if (HAS(c, zero_stage) && (c->zero_stage < stage || (stage == 3 && c->zero_stage != 3)))
		return err_set(e, "zero_stage %lld (%s) contradicts %s, which is stage %lld",
			       (long long)c->zero_stage, c->origin[CONFIG_zero_stage], from,
			       (long long)stage);
	if (!HAS(c, zero_stage))
		config_derived_int(c, CONFIG_zero_stage, stage, from);
	return 0;
}

/* DeepSpeed's "auto", as Transformers fills it in. */
static int derive_automatic(struct config *c, struct err *e)
{
	(void)e;
	if (HAS(c, hidden_size)) {
		int64_t h = c->hidden_size;

		if (c->automatic[CONFIG_reduce_bucket_size] && !HAS(c, reduce_bucket_size))
			config_derived_int(c, CONFIG_reduce_bucket_size, h * h,
					   "auto: hidden_size^2");
		if (c->automatic[CONFIG_stage3_prefetch_bucket_size] &&
		    !HAS(c, stage3_prefetch_bucket_size) && c->zero_stage == 3)
			config_derived_int(c, CONFIG_stage3_prefetch_bucket_size,
					   (int64_t)(0.9 * (double)h * (double)h),
					   "auto: 0.9 x hidden_size^2");
		if (c->automatic[CONFIG_stage3_param_persistence_threshold] &&
		    !HAS(c, stage3_param_persistence_threshold) && c->zero_stage == 3)
			config_derived_int(c, CONFIG_stage3_param_persistence_threshold, 10 * h,
					   "auto: 10 x hidden_size");
	}
	for (int f = 0; f < CONFIG_FIELDS; f++)
		if (c->automatic[f] && !config_has(c, f))
			config_note(c, "%s: %s is \"auto\" and nothing says what it becomes",
				    c->automatic[f], config_name(f));
	return 0;
}

static int derive_parameters(struct config *c, struct err *e)
{
	struct err why = { "" };
	int64_t total, largest;

	(void)e;
	if (!HAS(c, model_type) || !hf_knows_type(c->model_type))
		return 0;
	if (config_count_parameters(c, &total, &largest, &why)) {
		config_note(c, "%s", why.text);
		return 0;
	}
	if (!HAS(c, num_parameters))
		config_derived_int(c, CONFIG_num_parameters, total,
				   "counted from the architecture");
	if (!HAS(c, total_params))
		config_derived_int(c, CONFIG_total_params, c->num_parameters, "num_parameters");
	if (!HAS(c, largest_layer_params))
		config_derived_int(c, CONFIG_largest_layer_params, largest,
				   "counted from the architecture");
	return 0;
}

/* ---- what divides what ---- */

/* `whole` must be a multiple of `part` if both are given. */
static int divides(const struct config *c, enum config_field whole, int64_t w,
		   enum config_field part, int64_t p, struct err *e)
{
	if (!config_has(c, whole) || !config_has(c, part) || w % p == 0)
		return 0;
	return err_set(e, "%s %lld (%s) is not a multiple of %s %lld (%s)", config_name(whole),
		       (long long)w, c->origin[whole], config_name(part), (long long)p,
		       c->origin[part]);
}

#define DIVIDES(c, whole, part, e) \
	divides(c, CONFIG_##whole, (c)->whole, CONFIG_##part, (c)->part, e)

static int check_heads(const struct config *c, struct err *e)
{
	int64_t t = OR_ONE(c, tensor_model_parallel_size), k = c->num_query_groups;

	if ((!HAS(c, kv_channels) || config_is_derived(c, CONFIG_kv_channels)) &&
	    !c->multi_latent_attention && DIVIDES(c, hidden_size, num_attention_heads, e))
		return -1;
	if (DIVIDES(c, num_attention_heads, num_query_groups, e) ||
	    DIVIDES(c, num_attention_heads, tensor_model_parallel_size, e))
		return -1;
	if (HAS(c, num_query_groups) && k % t && t % k)
		return err_set(
			e,
			"num_query_groups %lld (%s) and tensor_model_parallel_size %lld (%s): neither is a multiple of the other",
			(long long)k, c->origin[CONFIG_num_query_groups], (long long)t,
			c->origin[CONFIG_tensor_model_parallel_size]);
	return 0;
}

static int check_stages(const struct config *c, struct err *e)
{
	int64_t p = OR_ONE(c, pipeline_model_parallel_size), layers, stages;

	if (!HAS(c, num_layers) || p == 1 || HAS(c, pipeline_model_parallel_layout))
		return 0;
	layers = c->num_layers + (c->account_for_embedding_in_pipeline_split != 0) +
		 (c->account_for_loss_in_pipeline_split != 0);
	stages = p - HAS(c, decoder_first_pipeline_num_layers) -
		 HAS(c, decoder_last_pipeline_num_layers);
	layers -= HAS(c, decoder_first_pipeline_num_layers) ? c->decoder_first_pipeline_num_layers
							    : 0;
	layers -=
		HAS(c, decoder_last_pipeline_num_layers) ? c->decoder_last_pipeline_num_layers : 0;
	if (layers < 0 || (stages == 0 && layers) || (stages && layers % stages))
		return err_set(
			e,
			"num_layers %lld (%s) does not split over pipeline_model_parallel_size %lld (%s): %lld layers on %lld stages",
			(long long)c->num_layers, c->origin[CONFIG_num_layers], (long long)p,
			c->origin[CONFIG_pipeline_model_parallel_size], (long long)layers,
			(long long)stages);
	if (HAS(c, virtual_pipeline_model_parallel_size) && stages && stages == p &&
	    layers / stages % c->virtual_pipeline_model_parallel_size)
		return err_set(
			e,
			"a stage's %lld layers are not a multiple of virtual_pipeline_model_parallel_size %lld (%s)",
			(long long)(layers / stages),
			(long long)c->virtual_pipeline_model_parallel_size,
			c->origin[CONFIG_virtual_pipeline_model_parallel_size]);
	return 0;
}

static int check_experts(const struct config *c, struct err *e)
{
	int64_t ranks = OR_ONE(c, pipeline_model_parallel_size) *
			OR_ONE(c, expert_model_parallel_size) *
			one(c, CONFIG_expert_tensor_parallel_size, c->expert_tensor_parallel_size);

	if (c->num_experts <= 0)
		return 0;
	if (DIVIDES(c, num_experts, expert_model_parallel_size, e))
		return -1;
	if (HAS(c, moe_router_topk) && c->moe_router_topk > c->num_experts)
		return err_set(e, "moe_router_topk %lld (%s) is more than num_experts %lld (%s)",
			       (long long)c->moe_router_topk, c->origin[CONFIG_moe_router_topk],
			       (long long)c->num_experts, c->origin[CONFIG_num_experts]);
	if (HAS(c, world_size) && HAS(c, expert_model_parallel_size) && ranks &&
	    c->world_size % ranks)
		return err_set(
			e,
			"world_size %lld (%s) is not a multiple of pipeline x expert x expert tensor = %lld",
			(long long)c->world_size, c->origin[CONFIG_world_size], (long long)ranks);
	return 0;
}

int config_check_layout(const struct config *c, struct err *e)
{
	int64_t cp = OR_ONE(c, context_parallel_size);

	if (check_heads(c, e) || check_stages(c, e) || check_experts(c, e))
		return -1;
	if (DIVIDES(c, ffn_hidden_size, tensor_model_parallel_size, e) ||
	    DIVIDES(c, padded_vocab_size, tensor_model_parallel_size, e))
		return -1;
	if (HAS(c, seq_length) && cp > 1 && c->seq_length % (2 * cp))
		return err_set(
			e,
			"seq_length %lld (%s) is not a multiple of 2 x context_parallel_size %lld (%s)",
			(long long)c->seq_length, c->origin[CONFIG_seq_length], (long long)cp,
			c->origin[CONFIG_context_parallel_size]);
	if (c->sequence_parallel && DIVIDES(c, seq_length, tensor_model_parallel_size, e))
		return -1;
	return 0;
}

int config_derive(struct config *c, struct err *e)
{
	static int (*const steps[])(struct config *, struct err *) = {
		derive_hybrid,    derive_nodes,      derive_data_parallel, derive_microbatches,
		derive_pipeline,  derive_vocabulary, derive_megatron,      derive_sharding,
		derive_automatic, derive_parameters,
	};

	for (int f = 0; f < CONFIG_FIELDS; f++)
		if (config_is_derived(c, f))
			config_unset(c, f);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		if (steps[i](c, e))
			return -1;
	return c->from_framework ? config_check_layout(c, e) : 0;
}
