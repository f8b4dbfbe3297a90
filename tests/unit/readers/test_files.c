/* The remaining readers, traces, and files that are not configurations. */
#include "given.h"

#include "session/job_options.h"
#include "session/trace_config.h"
#include "trace/trace.h"
#include "write_trace.h"
#include "readers/derive.h"
#include "readers/files.h"

static const struct given others[] = {
	{ .name = "accelerate fsdp",
	  .files = { "a.yaml",
		     "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nnum_machines: 1\n"
		     "fsdp_config:\n  fsdp_version: 1\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_offload_params: false\n"
		     "  fsdp_activation_checkpointing: true\n  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n" },
	  .read = { "a.yaml" },
	  .expect =
		  "zero_stage=3 reshard_after_forward=true precision=bf16-autocast world_size=8 data_parallel_size=8 recompute_granularity=full "
		  "fsdp_units=LlamaDecoderLayer offload_param=-" },
	{ .name = "accelerate fsdp2",
	  .files = { "a.yaml",
		     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n" },
	  .read = { "a.yaml" },
	  .expect = "zero_stage=3 reshard_after_forward=false" },
	{ .name = "accelerate deepspeed",
	  .files = { "a.yaml",
		     "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n  zero_stage: 3\n  zero3_init_flag: true\n"
		     "  gradient_accumulation_steps: 4\n  offload_optimizer_device: none\n" },
	  .read = { "a.yaml" },
	  .expect =
		  "zero_stage=3 precision=bf16-mixed num_microbatches=4 offload_optimizer=none zero_init=true" },
	{ .name = "accelerate environment",
	  .env = "ACCELERATE_MIXED_PRECISION=fp16 ACCELERATE_USE_FSDP=true FSDP_SHARDING_STRATEGY=SHARD_GRAD_OP FSDP_OFFLOAD_PARAMS=true "
		 "FSDP_TRANSFORMER_CLS_TO_WRAP=GPT2Block WORLD_SIZE=4 ACCELERATE_DYNAMO_BACKEND=no",
	  .expect =
		  "zero_stage=2 precision=fp16-autocast reshard_after_forward=false offload_param=cpu world_size=4 torch_compile=false" },
	{ .name = "accelerate launch",
	  .files = { "a.yaml",
		     "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 2\n" },
	  .argv = "accelerate launch --config_file a.yaml --num_processes 4 train.py --output_dir x",
	  .expect = "world_size=4 zero_stage=3" },
	{ .name = "accelerate launch, flags",
	  .argv = "accelerate launch --num_processes=4 --num_machines 1 --mixed_precision bf16 --use_fsdp --fsdp_sharding_strategy "
		  "SHARD_GRAD_OP train.py --x 1",
	  .expect =
		  "world_size=4 precision=bf16-autocast zero_stage=2 reshard_after_forward=false num_nodes=1" },
	{ .name = "accelerate launch, deepspeed",
	  .argv = "accelerate launch --use_deepspeed --zero_stage 3 --mixed_precision fp16 --offload_param_device cpu train.py",
	  .expect = "zero_stage=3 precision=fp16-mixed offload_param=cpu" },
	{ .name = "accelerate strategy",
	  .files = { "a.yaml",
		     "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: SOME_SHARD\n" },
	  .read = { "a.yaml" },
	  .say = { "a.yaml:3", "SOME_SHARD", "FULL_SHARD" } },
	{ .name = "trainer",
	  .argv = "torchrun --nproc-per-node=8 run_clm.py --per_device_train_batch_size 4 --bf16 True --block_size 2048 --optim adamw_torch_fused "
		  "--fsdp 'full_shard auto_wrap' --gradient_checkpointing False --attn_implementation flash_attention_2",
	  .expect =
		  "micro_batch_size=4 precision=bf16-autocast seq_length=2048 optimizer=adamw optimizer_implementation=fused zero_stage=3 "
		  "recompute_granularity=- attention=flash data_parallel_size=8 framework=transformers" },
	{ .name = "trainer's file",
	  .files = { "args.json",
		     "{\"model_name_or_path\": \"nowhere/x\", \"per_device_train_batch_size\": 2, \"output_dir\": \"o\", \"fp16\": true}" },
	  .read = { "args.json" },
	  .expect = "micro_batch_size=2 precision=fp16-autocast grad_scaler=true",
	  .say = { "nowhere/x" } },
	{ .name = "trainer, lora",
	  .argv = "train.py --per_device_train_batch_size 1 --use_peft --lora_r 16",
	  .expect = "micro_batch_size=1 lora_rank=16 lora_dropout=0.05 lora_target_modules=-" },
	{ .name = "trainer, lora without use_peft",
	  .argv = "train.py --per_device_train_batch_size 1 --lora_r 16",
	  .expect = "lora_rank=-",
	  .say = { "without use_peft" } },
	{ .name = "trainer, more of lora",
	  .argv = "train.py --per_device_train_batch_size 1 --finetuning_type lora --lora_target all --enable_liger_kernel --load_in_4bit",
	  .expect = "lora_rank=8 lora_target_modules=all-linear use_liger_kernel=true" },
	{ .name = "trainer, lora's modules",
	  .argv = "train.py --per_device_train_batch_size 1 --use_peft --lora_r 4 --lora_dropout 0 --lora_target_modules q_proj v_proj --load_in_8bit False",
	  .expect =
		  "lora_rank=4 lora_dropout=0 lora_target_modules=q_proj,v_proj unmodelled_options=-" },
	{ .name = "torchtitan",
	  .argv = "torchrun --nproc_per_node=8 -m torchtitan.train --training.seq_len 8192 --training.local_batch_size 2 "
		  "--parallelism.tensor_parallel_degree=2 --activation_checkpoint.mode selective --training.steps 10 --optimizer.name AdamW",
	  .expect =
		  "seq_length=8192 micro_batch_size=2 tensor_model_parallel_size=2 data_parallel_size=4 zero_stage=3 recompute_granularity=selective "
		  "precision=bf16-autocast sequence_parallel=true optimizer=adamw framework=torchtitan" },
	{ .name = "torchtitan, pipeline",
	  .argv = "train.py --parallelism.pipeline_parallel_degree 2 --training.local_batch_size 8 --parallelism.pipeline_parallel_microbatch_size 2",
	  .expect = "micro_batch_size=2 num_microbatches=4 pipeline_model_parallel_size=2" },
	{ .name = "torchtitan, 2026",
	  .argv = "-m torchtitan.train --module llama3 --config llama3_8b --training.num_tokens_per_microbatch_per_dp_rank 16384 "
		  "--training.max_context_length 4096 --parallelism.data_parallel_shard_degree 1",
	  .expect =
		  "micro_batch_size=4 seq_length=4096 zero_stage=- num_layers=32 ffn_hidden_size=14336 vocab_size=128256" },
	{ .name = "torchtitan, another model",
	  .argv = "-m torchtitan.train --config qwen3_x",
	  .expect = "num_layers=-",
	  .say = { "qwen3_x" } },
	{ .name = "torchtitan, a TOML of its early years",
	  .argv = "torchrun -m torchtitan.train --job.config_file ./train_configs/llama3_70b.toml",
	  .expect = "num_layers=80 hidden_size=8192 num_query_groups=8" },
	{ .name = "torchtitan, experts",
	  .argv = "-m torchtitan.train --model.name deepseek_v3 --model.flavor 16B --parallelism.expert_parallel_degree 8",
	  .expect = "num_layers=27 num_experts=64 expert_model_parallel_size=8 kv_lora_rank=512" },
	{ .name = "srun starts torchrun",
	  .argv = "srun -N 2 --ntasks=2 torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py --num-layers 2 --hidden-size 64",
	  .expect = "world_size=16 num_gpus_per_node=8 num_nodes=2" },
	{ .name = "srun's nodes are torchrun's",
	  .argv = "srun --nodes=4 torchrun --nproc-per-node=8 train.py --per_device_train_batch_size 1",
	  .expect = "world_size=32 num_nodes=4" },
	{ .name = "srun alone",
	  .argv = "srun --ntasks=16 --ntasks-per-node=8 -N 2 python train.py --per_device_train_batch_size 1",
	  .expect = "world_size=16 num_nodes=2" },
	{ .name = "accelerate launch",
	  .argv = "accelerate launch --num_processes 16 --num_machines 2 --use_fsdp --mixed_precision bf16 train.py --per_device_train_batch_size 1",
	  .expect = "world_size=16 num_nodes=2 zero_stage=3" },
	{ .name = "accelerate launch, other flags",
	  .argv = "accelerate launch --main_process_port 1 --fsdp_version 2 --use_fsdp train.py --per_device_train_batch_size 1",
	  .expect = "zero_stage=3" },
	{ .name = "accelerate, a key that could matter",
	  .files = { "a.yaml",
		     "distributed_type: FSDP\nfsdp_config:\n  fsdp_shard_everything: true\n  fsdp_version: 2\n" },
	  .read = { "a.yaml" },
	  .expect = "zero_stage=3",
	  .say = { "a.yaml:3: unknown key fsdp_config.fsdp_shard_everything" } },
	{ .name = "hf, a size that nobody reads",
	  .files = { "config.json",
		     "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 2,\n"
		     "\"num_attention_heads\": 4, \"vocab_size\": 100, \"rope_theta\": 1e4,\n\"memory_bank_size\": 7}" },
	  .read = { "config.json" },
	  .expect = "num_layers=2",
	  .say = { "config.json:3: unknown key memory_bank_size" } },
	{ .name = "deepspeed",
	  .argv = "deepspeed --num_gpus 8 --num_nodes 2 train.py --per_device_train_batch_size 1",
	  .expect = "world_size=16 num_gpus_per_node=8 num_nodes=2" },
	{ .name = "deepspeed's own launcher", /* {"a":[0,1,2,3],"b":[0,1,2,3]} */
	  .argv = "python -u -m deepspeed.launcher.launch --world_info=eyJhIjpbMCwxLDIsM10sImIiOlswLDEsMiwzXX0= --node_rank=0 train.py "
		  "--per_device_train_batch_size 1",
	  .expect = "world_size=8 num_gpus_per_node=4 num_nodes=2" },
	{ .name = "trainer's fsdp_config on a command line",
	  .argv = "train.py --per_device_train_batch_size 1 --fsdp full_shard --fsdp_config "
		  "'{\"activation_checkpointing\":true,\"transformer_layer_cls_to_wrap\":\"Block\"}'",
	  .expect = "zero_stage=3 recompute_granularity=full fsdp_units=Block" },
	{ .name = "trainer's fsdp_config in a file",
	  .files = { "args.yaml",
		     "per_device_train_batch_size: 2\noutput_dir: o\nfsdp: full_shard\nfsdp_config:\n  fsdp_activation_checkpointing: true\n" },
	  .read = { "args.yaml" },
	  .expect =
		  "micro_batch_size=2 zero_stage=3 recompute_granularity=full framework=transformers" },
	{ .name = "trainer's fsdp_config in a file of its own",
	  .files = { "fsdp.json", "{\"fsdp_version\": 2, \"reshard_after_forward\": false}",
		     "args.json",
		     "{\"per_device_train_batch_size\": 2, \"fsdp\": true, \"fsdp_config\": \"fsdp.json\"}" },
	  .read = { "args.json" },
	  .expect = "micro_batch_size=2 zero_stage=3" },
	{ .name = "own",
	  .files = { "job.json",
		     "{\"num_layers\": 2, \"hidden_size\": 64,\n\"environment\": {\"A\": \"b\\\"c\"}, \"moe_layer_freq\": [0,1], "
		     "\"bf16\": true, \"adam_eps\": 1e-8, \"sequence_parallel\": null}" },
	  .read = { "job.json" },
	  .expect =
		  "num_layers=2 environment={\"A\":\"b\\\"c\"} moe_layer_freq=[0,1] precision=bf16-mixed" },
	{ .name = "own, unknown key",
	  .files = { "job.json", "{\"num_layer\": 2}" },
	  .read = { "job.json" },
	  .expect = "num_layers=-",
	  .say = { "job.json:1: unknown key num_layer; did you mean num_layers" } },
	{ .name = "own, null takes back",
	  .files = { "a.json", "{\"num_layers\": 2}", "b.json", "{\"num_layers\": null}" },
	  .read = { "a.json", "b.json" },
	  .expect = "num_layers=-" },
	{ .name = "later wins",
	  .files = { "a.json", "{\"num_layers\": 2, \"seq_length\": 8}", "b.json",
		     "{\"num_layers\": 3}" },
	  .read = { "a.json", "b.json" },
	  .expect = "num_layers=3 seq_length=8" },
	{ .name = "no framework's",
	  .argv = "python train.py --depth 3",
	  .expect = "num_layers=-",
	  .say = { "train.py" } },
	{ .name = "no framework's, a size whose name says what it is",
	  .argv = "python train.py --depth 3 --pipeline-model-parallel-size 2",
	  .expect = "pipeline_model_parallel_size=2 framework=-",
	  .say = { "train.py" } },
};

static const struct given bad_files[] = {
	{ .name = "missing",
	  .read = { "nowhere.json" },
	  .say = { "nowhere.json", "No such file" } },
	{ .name = "empty",
	  .files = { "x.json", "" },
	  .read = { "x.json" },
	  .say = { "x.json", "empty" } },
	{ .name = "empty yaml",
	  .files = { "x.yaml", "# nothing\n" },
	  .read = { "x.yaml" },
	  .say = { "x.yaml", "empty" } },
	{ .name = "a directory", .read = { "/" }, .say = { "/" } },
	{ .name = "broken json",
	  .files = { "x.json", "{\"a\": 1,\n \"b\" 2}" },
	  .read = { "x.json" },
	  .say = { "x.json:2", "not JSON" } },
	{ .name = "cut json",
	  .files = { "x.json", "{\"a\": [1, 2" },
	  .read = { "x.json" },
	  .say = { "x.json:1", "not JSON" } },
	{ .name = "twice",
	  .files = { "x.json", "{\"a\": 1, \"a\": 2}" },
	  .read = { "x.json" },
	  .say = { "x.json", "duplicate" } },
	{ .name = "not utf-8",
	  .files = { "x.json", "{\"a\": \"\xff\"}" },
	  .read = { "x.json" },
	  .say = { "x.json", "not JSON" } },
	{ .name = "a list",
	  .files = { "x.json", "[1]" },
	  .read = { "x.json" },
	  .say = { "x.json", "a list" } },
	{ .name = "huge number",
	  .files = { "x.json", "{\"num_layers\": 99999999999999999999}" },
	  .read = { "x.json" },
	  .say = { "x.json:1" } },
	{ .name = "broken yaml",
	  .files = { "x.yaml", "a: 1\n b: [2\nc: 3\n" },
	  .read = { "x.yaml" },
	  .say = { "x.yaml:", "not YAML" } },
	{ .name = "yaml twice",
	  .files = { "x.yaml", "a: 1\nb: 2\na: 3\n" },
	  .read = { "x.yaml" },
	  .say = { "x.yaml:3", "twice" } },
	{ .name = "yaml aliases",
	  .files = { "x.yaml",
		     "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
		     "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n" },
	  .read = { "x.yaml" },
	  .say = { "x.yaml", "too many values" } },
	{ .name = "yaml within itself",
	  .files = { "x.yaml", "a: &a [*a]\n" },
	  .read = { "x.yaml" },
	  .say = { "x.yaml" } },
	{ .name = "float for a count",
	  .files = { "x.json", "{\"num_layers\": 1.5}" },
	  .read = { "x.json" },
	  .say = { "x.json:1", "1.5", "whole number" } },
	{ .name = "negative",
	  .files = { "x.json", "{\"num_layers\": -1}" },
	  .read = { "x.json" },
	  .say = { "x.json:1", "-1" } },
	{ .name = "a word for a switch",
	  .files = { "x.json", "{\"swiglu\": \"maybe\"}" },
	  .read = { "x.json" },
	  .say = { "maybe", "true or false" } },
	{ .name = "a list for a number",
	  .files = { "x.json", "{\"num_layers\": [1]}" },
	  .read = { "x.json" },
	  .say = { "num_layers", "a list" } },
	{ .name = "an unknown word",
	  .files = { "x.json", "{\"precision\": \"int3\"}" },
	  .read = { "x.json" },
	  .say = { "int3", "one of: bf16-mixed" } },
};

READER(others)
READER(bad_files)

/* Every key that an architecture needs: absent, and with every kind of wrong value. */
static void each_needed_key(void **state)
{
	static const struct {
		const char *type, *keys[5];
	} types[] = {
		{ "llama",
		  { "num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size",
		    "intermediate_size" } },
		{ "gpt2", { "n_layer", "n_embd", "n_head", "vocab_size" } },
		{ "bloom", { "n_layer", "hidden_size", "n_head", "vocab_size" } },
		{ "t5", { "num_layers", "d_model", "num_heads", "vocab_size", "d_ff" } },
	};
	static const char *const wrong[] = {
		NULL, "0", "-4", "1.5", "1e40", "\"x\"", "true", "[4]", "{}", "99999999999999999999"
	};

	(void)state;
	for (size_t t = 0; t < 4; t++) {
		for (size_t k = 0; k < 5 && types[t].keys[k]; k++) {
			for (size_t w = 0; w < sizeof(wrong) / sizeof(wrong[0]); w++) {
				struct buf b = { 0 };

				buf_addf(&b, "{\"architectures\": [], \"model_type\": \"%s\"",
					 types[t].type);
				for (size_t i = 0; i < 5 && types[t].keys[i]; i++)
					if (i != k || wrong[w])
						buf_addf(&b, ",\n\"%s\": %s", types[t].keys[i],
							 i == k ? wrong[w] : "4");
				buf_puts(&b, "}");
				write_file("x.json", b.text);
				config_release(&config);
				memset(&why, 0, sizeof(why));
				if (!config_read_file(&config, "x.json", &why))
					fail_msg("accepted: %s", b.text);
				if (!strstr(why.text, "x.json"))
					fail_msg("%s: \"%s\" does not name the file", b.text,
						 why.text);
				/* jansson rejects a number that is too large for JSON. */
				if (w < 9 && w != 4 && !strstr(why.text, types[t].keys[k]))
					fail_msg("%s: \"%s\" does not name %s", b.text, why.text,
						 types[t].keys[k]);
				buf_release(&b);
			}
		}
	}
}

static void write_many(const char *name, const char *start, const char *one, size_t count,
		       const char *end)
{
	FILE *f = fopen(name, "wb");

	assert_non_null(f);
	fputs(start, f);
	for (size_t i = 0; i < count; i++)
		fputs(one, f);
	fputs(end, f);
	fclose(f);
}

static void large_and_deep_files_are_refused(void **state)
{
	static const char *const names[] = { "big.json", "big.yaml", "deep.json", "deep.yaml",
					     "deep2.json" };

	(void)state;
	write_many("big.json", "{\"a\": [1", ",1", 50 << 20, "]}");
	write_many("big.yaml", "a: [1", ",1", 50 << 20, "]");
	write_many("deep.json", "{\"a\":", "[", 100000, "");
	write_many("deep.yaml", "a: ", "[", 5000, "");
	write_many("deep2.json", "", "{\"zero_optimization\":", 3000, "1");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		memset(&why, 0, sizeof(why));
		assert_int_equal(config_read_file(&config, names[i], &why), -1);
		assert_non_null(strstr(why.text, names[i]));
		unlink(names[i]);
	}
}

/* A trace has a command line, an environment and a declared file; the file wins. */
static void read_trace(void **state)
{
	static const char argv[] = "/usr/bin/python3\0pretrain_gpt.py\0--num-layers\0"
				   "12\0--hidden-size\0"
				   "512\0--num-attention-heads\0"
				   "8\0"
				   "--micro-batch-size=2\0--yaml-cfg\0/not/here.yaml";
	unsigned char *file;
	struct writer w;
	struct trace t;
	size_t size;

	(void)state;
	write_start(&w);
	write_meta(&w, "argv", argv, sizeof(argv) - 1);
	write_meta(&w, "env:WORLD_SIZE", "4", 1);
	write_meta(&w, "env:NVTE_X", "\"1\"", 3);
	write_meta(&w, "version:torch", "2.15.0", 6);
	write_meta(&w, "config", " {\"num_layers\": 24}", 19);
	write_segment(&w, 0);
	file = write_finish(&w, &size);
	assert_int_equal(trace_open_memory(&t, file, size, &why), 0);
	if (trace_config_read(&config, &t, &why) || config_derive(&config, &why))
		fail_msg("%s", why.text);
	expect("trace",
	       "num_layers=24 hidden_size=512 micro_batch_size=2 data_parallel_size=4 torch_version=2.15.0 framework=megatron-core "
	       "environment={\"WORLD_SIZE\":\"4\",\"NVTE_X\":\"\\\"1\\\"\"}");
	assert_true(has_note("/not/here.yaml"));
	trace_release(&t);
	free(file);
	/* --config names the trace file, then its directory. */
	for (int in_directory = 0; in_directory < 2; in_directory++) {
		assert_int_equal(write_save(&w, "a.mtr"), 0);
		config_release(&config);
		if (job_read_file(&config, in_directory ? "." : "a.mtr", &why) ||
		    config_derive(&config, &why))
			fail_msg("%s", why.text);
		expect("trace", "num_layers=24 hidden_size=512 world_size=4");
		unlink("a.mtr");
	}
	assert_int_equal(job_read_file(&config, ".", &why), -1);
	write_release(&w);
}

static void files_that_name_themselves(void **state)
{
	(void)state;
	write_file("a.json", "{\"per_device_train_batch_size\": 1, \"deepspeed\": \"a.json\"}");
	assert_int_equal(config_read_file(&config, "a.json", &why), -1);
	assert_non_null(strstr(why.text, "name each other"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(read_others),     T(read_bad_files), T(large_and_deep_files_are_refused),
		T(each_needed_key), T(read_trace),     T(files_that_name_themselves),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
