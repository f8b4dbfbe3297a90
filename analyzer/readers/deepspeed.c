/* ds_config.json: a file, or base64 on a command line. Bucket sizes are elements, not bytes. */
#include "readers/deepspeed.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/base64.h"

/* "auto" is resolved by Transformers, whose arguments may be read later: config_derive() does it.
 */
static int is_auto(struct reader *r, int field, const char *value)
{
	if (strcmp(value, "auto"))
		return 0;
	if (field >= 0)
		config_set_auto(r->c, field, r->origin);
	return 1;
}

static int take(struct reader *r, int field, const char *value)
{
	return is_auto(r, field, value) ? 0 : reader_put(r, field, value);
}

static int take_precision(struct reader *r, int field, const char *value)
{
	int on = parse_bool(value);
	const char *name = !strncmp(r->key, "amp", 3) ? "fp16-autocast"
			   : strstr(r->key, "bf")     ? "bf16-mixed"
						      : "fp16-mixed";
	unsigned *seen = r->state;

	if (is_auto(r, field, value))
		return 0;
	if (on < 0)
		return err_set(r->e, "%s: %s is \"%.60s\", but must be true, false or auto",
			       r->origin, r->key, value);
	if (!on)
		return 0;
	if (*seen)
		return err_set(r->e, "%s: %s contradicts %s (%s): one precision can be enabled",
			       r->origin, r->key, r->c->precision, r->c->origin[field]);
	*seen = 1;
	if (!strcmp(name, "fp16-mixed") && reader_put(r, CONFIG_grad_scaler, "true"))
		return -1;
	return reader_put(r, field, name);
}

/* cpu_offload is the old name of offload_optimizer. */
static int take_cpu_offload(struct reader *r, int field, const char *value)
{
	return parse_bool(value) == 1 ? reader_put(r, field, "cpu") : 0;
}

static int take_optimizer_or_auto(struct reader *r, int field, const char *value)
{
	return is_auto(r, field, value) ? 0 : take_optimizer(r, field, value);
}

static int take_grad_type(struct reader *r, int field, const char *value)
{
	if (is_auto(r, field, value))
		return 0;
	return reader_put(r, field, strcmp(value, "fp32") && strcmp(value, "float32") ? "2" : "4");
}

#define ZERO "zero_optimization."

static const struct key_row rows[] = {
	{ "train_batch_size", CONFIG_global_batch_size, take },
	{ "train_micro_batch_size_per_gpu", CONFIG_micro_batch_size, take },
	{ "gradient_accumulation_steps", CONFIG_gradient_accumulation_steps, take },
	{ "gradient_clipping", CONFIG_clip_grad, take },
	{ "bf16.enabled", CONFIG_precision, take_precision },
	{ "bfloat16.enabled", CONFIG_precision, take_precision },
	{ "fp16.enabled", CONFIG_precision, take_precision },
	{ "amp.enabled", CONFIG_precision, take_precision },
	{ "bf16.bf16_master_weights_and_grads", CONFIG_bf16_master_weights_and_grads, take },
	{ "data_types.grad_accum_dtype", CONFIG_grad_bytes, take_grad_type },
	{ "optimizer.type", CONFIG_optimizer, take_optimizer_or_auto },
	{ ZERO "stage", CONFIG_zero_stage, take },
	{ ZERO "reduce_bucket_size", CONFIG_reduce_bucket_size, take },
	{ ZERO "allgather_bucket_size", CONFIG_allgather_bucket_size, take },
	{ ZERO "sub_group_size", CONFIG_sub_group_size, take },
	{ ZERO "overlap_comm", CONFIG_overlap_comm, take },
	{ ZERO "contiguous_gradients", CONFIG_contiguous_gradients, take },
	{ ZERO "round_robin_gradients", CONFIG_round_robin_gradients, take },
	{ ZERO "stage3_prefetch_bucket_size", CONFIG_stage3_prefetch_bucket_size, take },
	{ ZERO "stage3_param_persistence_threshold", CONFIG_stage3_param_persistence_threshold,
	  take },
	{ ZERO "stage3_max_live_parameters", CONFIG_stage3_max_live_parameters, take },
	{ ZERO "stage3_max_reuse_distance", CONFIG_stage3_max_reuse_distance, take },
	{ ZERO "stage3_gather_16bit_weights_on_model_save",
	  CONFIG_stage3_gather_16bit_weights_on_model_save, take },
	{ ZERO "zero_hpz_partition_size", CONFIG_zero_hpz_partition_size, take },
	{ ZERO "zero_quantized_weights", CONFIG_zero_quantized_weights, take },
	{ ZERO "zero_quantized_gradients", CONFIG_zero_quantized_gradients, take },
	{ ZERO "mics_shard_size", CONFIG_mics_shard_size, take },
	{ ZERO "offload_optimizer.device", CONFIG_offload_optimizer, take },
	{ ZERO "offload_optimizer.ratio", CONFIG_optimizer_offload_fraction, take },
	{ ZERO "offload_param.device", CONFIG_offload_param, take },
	{ ZERO "cpu_offload", CONFIG_offload_optimizer, take_cpu_offload },
	{ ZERO "cpu_offload_params", CONFIG_offload_param, take_cpu_offload },
	{ "activation_checkpointing.partition_activations", CONFIG_partition_activations, take },
	{ "activation_checkpointing.cpu_checkpointing", CONFIG_cpu_checkpointing, take },
	{ "tensor_parallel.autotp_size", CONFIG_tensor_model_parallel_size, take },
	{ "context_parallel_size", CONFIG_context_parallel_size, take },
	{ "sequence_parallel_size", CONFIG_context_parallel_size, take },
};

/* Keys that begin so have no effect on memory. */
static const char *const without_effect[] = {
	"optimizer.params",
	"scheduler",
	"steps_per_print",
	"wall_clock_breakdown",
	"dump_state",
	"tensorboard",
	"wandb",
	"csv_monitor",
	"flops_profiler",
	"comms_logger",
	"checkpoint",
	"aio",
	"prescale_gradients",
	"gradient_predivide_factor",
	"sparse_gradients",
	"communication_data_type",
	"fp16.loss_scale",
	"fp16.initial_scale_power",
	"fp16.hysteresis",
	"fp16.min_loss_scale",
	"fp16.auto_cast",
	"fp16.consecutive_hysteresis",
	"zero_allow_untested_optimizer",
	"zero_force_ds_cpu_optimizer",
	"memory_breakdown",
	"disable_allgather",
	"seed",
	"compression_training",
	"data_efficiency",
	"elasticity",
	"autotuning",
	"activation_checkpointing.contiguous_memory_optimization",
	"activation_checkpointing.number_checkpoints",
	"activation_checkpointing.synchronize_checkpoint_boundary",
	"activation_checkpointing.profile",
	"optimizer.legacy_fusion",
	"amp.opt_level",
	"amp.loss_scale",
	"bf16.immediate_grad_update",
	"bf16.check_grad_overflow",
	"graph_harvesting",
	"use_data_before_expert_parallel_",
	ZERO "offload_optimizer.",
	ZERO "offload_param.",
	ZERO "elastic_checkpoint",
	ZERO "ignore_unused_parameters",
	ZERO "load_from_fp32_weights",
	ZERO "legacy_stage1",
	ZERO "allgather_partitions",
	ZERO "reduce_scatter",
	ZERO "gather_16bit_weights_on_model_save",
	ZERO "zeropp_loco_param",
	ZERO "log_trace_cache_warnings",
	ZERO "stage3_gather_fp16_weights_on_model_save",
	ZERO "mics_hierarchical_params_gather",
	ZERO "use_multi_rank_bucket_allreduce",
	ZERO "memory_efficient_linear",
	ZERO "module_granularity_threshold",
	ZERO "pipeline_loading_checkpoint",
	ZERO "override_module_apply",
	ZERO "leaf_module",
};

static int unknown(struct reader *r, const char *key, const char *value)
{
	(void)value;
	for (size_t i = 0; i < ARRAY_SIZE(without_effect); i++)
		if (!strncmp(key, without_effect[i], strlen(without_effect[i])))
			return 0;
	config_note(r->c, "%s: unknown key %s", r->origin, key);
	return 0;
}

static const struct {
	enum config_field field;
	const char *value;
	int least_stage; /* the lowest ZeRO stage that has this default */
} defaults[] = {
	{ CONFIG_zero_stage, "0", 0 },
	{ CONFIG_precision, "fp32", 0 },
	{ CONFIG_reduce_bucket_size, "500000000", 1 },
	{ CONFIG_allgather_bucket_size, "500000000", 1 },
	{ CONFIG_contiguous_gradients, "true", 1 },
	{ CONFIG_offload_optimizer, "none", 1 },
	{ CONFIG_offload_param, "none", 3 },
	{ CONFIG_sub_group_size, "1000000000", 3 },
	{ CONFIG_stage3_prefetch_bucket_size, "50000000", 3 },
	{ CONFIG_stage3_param_persistence_threshold, "100000", 3 },
	{ CONFIG_stage3_max_live_parameters, "1000000000", 3 },
	{ CONFIG_stage3_max_reuse_distance, "1000000000", 3 },
	{ CONFIG_framework, "deepspeed", 0 },
};

int config_read_deepspeed(struct reader *r, const struct doc_node *root, const char *name)
{
	static const struct key_table table = { rows, ARRAY_SIZE(rows), 0, unknown };
	struct config *c = r->c;
	unsigned seen = 0;

	r->state = &seen;
	if (reader_read_tree(r, &table, root, name))
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		if (c->zero_stage >= defaults[i].least_stage && !c->automatic[defaults[i].field] &&
		    config_set_default(c, defaults[i].field, defaults[i].value,
				       "DeepSpeed's default", r->e))
			return -1;
	if (!c->automatic[CONFIG_overlap_comm] &&
	    config_set_default(c, CONFIG_overlap_comm, c->zero_stage == 3 ? "true" : "false",
			       "DeepSpeed's default", r->e))
		return -1;
	c->from_framework = 1;
	return 0;
}

/* ---- on a command line ---- */

static int read_value(struct reader *r, const struct flag *flag)
{
	size_t length = 0;
	char *text;
	int status;

	/* A path may look like base64, so an existing file is read first. */
	if (!access(flag->value, R_OK))
		return r->read_file(r, flag->value, 0);
	text = flag->value[0] == '{' ? xstrdup(flag->value) : base64_decode(flag->value, &length);
	if (text && text[0] == '{') {
		length = flag->value[0] == '{' ? strlen(text) : length;
		status = r->read_text(r, text, length, flag->written, 0);
	} else {
		status = r->read_file(r, flag->value, 1);
	}
	free(text);
	return status;
}

int config_read_deepspeed_flags(struct reader *r, const struct flags *f)
{
	static const char *const names[] = { "deepspeed_config", "deepspeed", "ds_config" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct flag *flag = flags_find(f, names[i]);

		if (flag && flag->value && read_value(r, flag))
			return -1;
	}
	return 0;
}
