/* A layout as flags of each launcher, or the reason why the launcher cannot have it. */
#include "plan/plan.h"

#include <jansson.h>
#include <stdlib.h>

#define SIZE(l, dim) ((long long)(l)->size[DIM_##dim])

static void megatron(const struct plan *plan, const struct plan_layout *l, struct buf *out)
{
	static const char *const sharding[] = {
		"",
		" --use-distributed-optimizer",
		" --use-distributed-optimizer --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads",
		" --use-distributed-optimizer --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params",
	};

	buf_addf(out,
		 "--tensor-model-parallel-size %lld --pipeline-model-parallel-size %lld "
		 "--context-parallel-size %lld",
		 SIZE(l, TP), SIZE(l, PP), SIZE(l, CP));
	if (SIZE(l, VPP) > 1)
		buf_addf(out, " --num-layers-per-virtual-pipeline-stage %lld",
			 (long long)plan->config->num_layers / SIZE(l, PP) / SIZE(l, VPP));
	if (SIZE(l, EP) > 1)
		buf_addf(out, " --expert-model-parallel-size %lld", SIZE(l, EP));
	if (SIZE(l, MBS) != UNSET)
		buf_addf(out, " --micro-batch-size %lld", SIZE(l, MBS));
	if (config_has(plan->config, CONFIG_global_batch_size))
		buf_addf(out, " --global-batch-size %lld",
			 (long long)plan->config->global_batch_size);
	buf_puts(out, sharding[SIZE(l, ZERO)]);
	if (l->sequence_parallel)
		buf_puts(out, " --sequence-parallel");
	if (SIZE(l, RECOMPUTE) == RECOMPUTE_SELECTIVE)
		buf_puts(out, " --recompute-granularity selective");
	if (SIZE(l, RECOMPUTE) == RECOMPUTE_FULL)
		buf_puts(
			out,
			" --recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
}

static int is_data_parallel(const struct plan_layout *l)
{
	return SIZE(l, TP) * SIZE(l, PP) * SIZE(l, CP) * SIZE(l, EP) == 1;
}

static void deepspeed(const struct plan *plan, const struct plan_layout *l, struct buf *out)
{
	json_t *ds_config;
	char *text;

	if (!is_data_parallel(l)) {
		buf_puts(
			out,
			"none: a ds_config.json has no tensor, pipeline, context or expert parallelism");
		return;
	}
	if (SIZE(l, RECOMPUTE) != RECOMPUTE_NONE) {
		buf_puts(out, "none: recomputation is the model's, not a ds_config.json's");
		return;
	}
	ds_config = json_object();
	if (SIZE(l, MBS) != UNSET) {
		json_object_set_new(ds_config, "train_batch_size",
				    json_integer(plan->config->global_batch_size));
		json_object_set_new(ds_config, "train_micro_batch_size_per_gpu",
				    json_integer(SIZE(l, MBS)));
		json_object_set_new(ds_config, "gradient_accumulation_steps",
				    json_integer(l->micro_batches));
	}
	json_object_set_new(ds_config, "zero_optimization",
			    json_pack("{s:I}", "stage", (json_int_t)SIZE(l, ZERO)));
	text = json_dumps(ds_config, 0);
	buf_puts(out, text);
	free(text);
	json_decref(ds_config);
}

/* FSDP2 has ZeRO-3, and ZeRO-2 if weights stay gathered. ZeRO-2 stands for ZeRO-1 too: it holds no
 * more.
 */
static void torchtitan_sharding(const struct plan_layout *l, struct buf *out)
{
	if (SIZE(l, ZERO) == 0)
		buf_addf(out,
			 " --parallelism.data_parallel_replicate_degree=%lld "
			 "--parallelism.data_parallel_shard_degree=1",
			 SIZE(l, DP));
	else
		buf_addf(out,
			 " --parallelism.data_parallel_shard_degree=%lld "
			 "--parallelism.fsdp_reshard_after_forward=%s",
			 SIZE(l, DP), SIZE(l, ZERO) == 3 ? "always" : "never");
}

static void torchtitan(const struct plan *plan, const struct plan_layout *l, struct buf *out)
{
	static const char *const modes[] = { "", " --activation_checkpoint.mode=selective",
					     " --activation_checkpoint.mode=full" };

	buf_addf(
		out,
		"--parallelism.tensor_parallel_degree=%lld --parallelism.pipeline_parallel_degree=%lld "
		"--parallelism.context_parallel_degree=%lld",
		SIZE(l, TP), SIZE(l, PP), SIZE(l, CP));
	torchtitan_sharding(l, out);
	if (SIZE(l, EP) > 1)
		buf_addf(out, " --parallelism.expert_parallel_degree=%lld", SIZE(l, EP));
	if (SIZE(l, MBS) != UNSET)
		buf_addf(out, " --training.local_batch_size=%lld --training.global_batch_size=%lld",
			 SIZE(l, MBS) * (SIZE(l, PP) > 1 ? (long long)l->micro_batches : 1),
			 (long long)plan->config->global_batch_size);
	if (SIZE(l, PP) > 1)
		buf_addf(out, " --parallelism.pipeline_parallel_microbatch_size=%lld",
			 SIZE(l, MBS));
	if (SIZE(l, VPP) > 1)
		buf_addf(out,
			 " --parallelism.pipeline_parallel_schedule=Interleaved1F1B "
			 "--parallelism.pipeline_parallel_layers_per_stage=%lld",
			 (long long)plan->config->num_layers / SIZE(l, PP) / SIZE(l, VPP));
	buf_puts(out, modes[SIZE(l, RECOMPUTE)]);
}

static void accelerate_fsdp(const struct plan_layout *l, struct buf *out)
{
	if (!is_data_parallel(l)) {
		buf_puts(
			out,
			"none: accelerate's Megatron-LM plugin has ZeRO-1, its FSDP no such layout");
		return;
	}
	buf_addf(out,
		 "--num_processes %lld --use_fsdp --fsdp_version 2 --fsdp_reshard_after_forward %s",
		 SIZE(l, DP), SIZE(l, ZERO) == 3 ? "true" : "false");
	if (SIZE(l, RECOMPUTE) == RECOMPUTE_FULL)
		buf_puts(out, " --fsdp_activation_checkpointing true");
}

static void accelerate(const struct plan_layout *l, struct buf *out)
{
	if (SIZE(l, VPP) > 1) {
		buf_puts(out, "none: accelerate's Megatron-LM plugin has no interleaved stages");
		return;
	}
	if (SIZE(l, ZERO) > 1) {
		accelerate_fsdp(l, out);
		return;
	}
	buf_addf(out,
		 "--num_processes %lld --use_megatron_lm --megatron_lm_tp_degree %lld "
		 "--megatron_lm_pp_degree %lld",
		 SIZE(l, TP) * SIZE(l, PP) * SIZE(l, CP) * SIZE(l, DP), SIZE(l, TP), SIZE(l, PP));
	if (SIZE(l, CP) > 1)
		buf_addf(out, " --megatron_lm_context_parallel_size %lld", SIZE(l, CP));
	if (SIZE(l, EP) > 1)
		buf_addf(out, " --megatron_lm_expert_model_parallel_size %lld", SIZE(l, EP));
	if (l->micro_batches != UNSET)
		buf_addf(out, " --megatron_lm_num_micro_batches %lld", (long long)l->micro_batches);
	buf_addf(
		out,
		" --megatron_lm_use_distributed_optimizer %s --megatron_lm_sequence_parallelism %s",
		SIZE(l, ZERO) ? "true" : "false", l->sequence_parallel ? "true" : "false");
	if (SIZE(l, RECOMPUTE) != RECOMPUTE_NONE)
		buf_addf(out, " --megatron_lm_recompute_granularity %s",
			 recompute_names[SIZE(l, RECOMPUTE)]);
	if (SIZE(l, RECOMPUTE) == RECOMPUTE_FULL)
		buf_puts(
			out,
			" --megatron_lm_recompute_method uniform --megatron_lm_recompute_num_layers 1");
}

void plan_flags(const struct plan *plan, const struct plan_layout *l, enum plan_launcher launcher,
		struct buf *out)
{
	switch (launcher) {
	case LAUNCHER_NONE:
		break;
	case LAUNCHER_MEGATRON:
	case LAUNCHER_MEGATRON_CORE:
		megatron(plan, l, out);
		break;
	case LAUNCHER_DEEPSPEED:
		deepspeed(plan, l, out);
		break;
	case LAUNCHER_TORCHTITAN:
		torchtitan(plan, l, out);
		break;
	case LAUNCHER_ACCELERATE:
	case LAUNCHER_TRANSFORMERS:
		accelerate(l, out);
		break;
	}
}
