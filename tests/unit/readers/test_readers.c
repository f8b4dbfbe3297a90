/* The readers of Megatron-LM, Hugging Face and DeepSpeed; the expected values are calculated by
 * hand. */
#include "given.h"

#define GPT \
	"--num-layers 12 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 "

static const struct given megatron[] = {
	{ .name = "defaults",
	  .argv = "pretrain_gpt.py " GPT "--micro-batch-size 4 --vocab-size 50257",
	  .expect =
		  "num_layers=12 ffn_hidden_size=2048 kv_channels=64 padded_vocab_size=50304 precision=fp32 normalization=LayerNorm "
		  "add_bias_linear=true position_embedding_type=learned_absolute attention_dropout=0.1 framework=megatron-core" },
	{ .name = "spelling",
	  .argv = "torchrun --nproc_per_node 8 --nnodes=2 pretrain_gpt.py --num_layers=12 --hidden-size 512 --num-attention-heads 8 "
		  "--swiglu --tensor-model-parallel-size=2 --pipeline_model_parallel_size 2 --micro-batch-size 4 --global-batch-size 128 "
		  "--bf16 --no-bias-swiglu-fusion --disable-bias-linear --use-distributed-optimizer --adam-beta2 0.95 --vocab-size 50257",
	  .expect =
		  "world_size=16 data_parallel_size=4 num_microbatches=8 ffn_hidden_size=1344 padded_vocab_size=50432 precision=bf16-mixed "
		  "accumulate_allreduce_grads_in_fp32=true zero_stage=1 add_bias_linear=false bias_swiglu_fusion=false swiglu=true" },
	{ .name = "gqa",
	  .argv = "pretrain_gpt.py " GPT "--group-query-attention --num-query-groups 2",
	  .expect = "num_query_groups=2" },
	{ .name = "gqa alone is one group",
	  .argv = "pretrain_gpt.py " GPT "--group-query-attention",
	  .expect = "num_query_groups=1" },
	{ .name = "groups without gqa",
	  .argv = "pretrain_gpt.py " GPT "--num-query-groups 2",
	  .expect = "num_query_groups=-",
	  .say = { "--group-query-attention" } },
	{ .name = "interleaved",
	  .argv = "pretrain_gpt.py " GPT
		  "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2",
	  .expect = "virtual_pipeline_model_parallel_size=3" },
	{ .name = "uneven",
	  .argv = "pretrain_gpt.py " GPT
		  "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 2 "
		  "--decoder-last-pipeline-num-layers 4",
	  .expect = "decoder_first_pipeline_num_layers=2" },
	{ .name = "moe",
	  .argv = "pretrain_gpt.py " GPT
		  "--num-experts 8 --moe-layer-freq '([0]*2+[1]*10)' --expert-model-parallel-size 4 "
		  "--tensor-model-parallel-size 2 --moe-token-dispatcher-type alltoall --recompute-modules moe_act mlp --recompute-granularity selective",
	  .expect =
		  "moe_layer_freq=[0,0,1,1,1,1,1,1,1,1,1,1] moe_router_topk=2 moe_ffn_hidden_size=2048 expert_tensor_parallel_size=2 "
		  "moe_token_dispatcher_type=alltoall recompute_modules=moe_act,mlp" },
	{ .name = "mla",
	  .argv = "pretrain_gpt.py " GPT "--multi-latent-attention --kv-lora-rank 64",
	  .expect =
		  "kv_lora_rank=64 qk_head_dim=128 qk_pos_emb_head_dim=64 v_head_dim=128 q_lora_rank=-" },
	{ .name = "fsdp",
	  .argv = "pretrain_gpt.py " GPT
		  "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params",
	  .expect = "zero_stage=3" },
	{ .name = "padded vocabulary given",
	  .argv = "pretrain_gpt.py " GPT "--padded-vocab-size 50688",
	  .expect = "padded_vocab_size=50688 vocab_size=50688" },
	{ .name = "tokenizer",
	  .argv = "pretrain_gpt.py " GPT "--vocab-file v.json --merge-file m.txt",
	  .expect = "vocab_size=50257 padded_vocab_size=50304" },
	{ .name = "recompute",
	  .argv = "pretrain_gpt.py " GPT "--recompute-activations",
	  .expect = "recompute_granularity=selective" },
	{ .name = "unknown flag",
	  .argv = "pretrain_gpt.py " GPT "--my-own-flag 3",
	  .expect = "num_layers=12",
	  .say = { "my_own_flag" } },
	{ .name = "bf16 and fp16",
	  .argv = "pretrain_gpt.py " GPT "--bf16 --fp16",
	  .say = { "--fp16", "bf16" } },
	{ .name = "malformed",
	  .argv = "pretrain_gpt.py --num-layers twelve --hidden-size 8",
	  .say = { "--num-layers", "twelve", "whole number" } },
	{ .name = "does not divide",
	  .argv = "pretrain_gpt.py " GPT "--tensor-model-parallel-size 3",
	  .say = { "num_attention_heads 8", "3" } },
	{ .name = "batch",
	  .argv = "pretrain_gpt.py " GPT "--micro-batch-size 4 --global-batch-size 10",
	  .env = "WORLD_SIZE=4",
	  .say = { "global_batch_size 10" } },
	{ .name = "window",
	  .argv = "pretrain_gpt.py " GPT "--window-size '127,0'",
	  .expect = "window_size=127" },
	{ .name = "srun",
	  .argv = "srun --ntasks=8 --nodes 2 python pretrain_gpt.py " GPT
		  "--tensor-model-parallel-size 2",
	  .expect = "world_size=8 data_parallel_size=4 num_nodes=2" },
	{ .name = "yaml",
	  .files = { "args.yaml",
		     "language_model:\n  num_layers: 24\n  hidden_size: 1024\n  num_attention_heads: 16\n  add_bias_linear: false\n"
		     "  recompute_modules: [core_attn, mlp]\nmodel_parallel:\n  tensor_model_parallel_size: 2\n  bf16: true\n"
		     "micro_batch_size: 2\nseq_length: 4096\n" },
	  .read = { "args.yaml" },
	  .expect =
		  "num_layers=24 hidden_size=1024 add_bias_linear=false tensor_model_parallel_size=2 precision=bf16-mixed micro_batch_size=2 "
		  "recompute_modules=core_attn,mlp" },
	{ .name = "--yaml-cfg",
	  .files = { "args.yaml", "num_layers: 24\nhidden_size: 1024\nnum_attention_heads: 16\n" },
	  .argv = "pretrain_gpt.py --yaml-cfg args.yaml",
	  .expect = "num_layers=24" },
	{ .name = "bridge",
	  .files = { "run_config.yaml",
		     "model:\n  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider\n  num_layers: 32\n  hidden_size: 4096\n"
		     "  num_attention_heads: 32\n  num_query_groups: 8\n  ffn_hidden_size: 14336\n  gated_linear_unit: true\n  normalization: RMSNorm\n"
		     "  share_embeddings_and_output_weights: false\n  add_bias_linear: false\n  vocab_size: 128256\n  tensor_model_parallel_size: 2\n"
		     "  virtual_pipeline_model_parallel_size: null\n  seq_length: 8192\n  bf16: true\n  attention_backend: AttnBackend.auto\n"
		     "  position_embedding_type: rope\n"
		     "train:\n  micro_batch_size: 1\n  global_batch_size: 128\nddp:\n  grad_reduce_in_fp32: true\n  use_distributed_optimizer: true\n"
		     "optimizer:\n  optimizer: adam\n  main_grads_dtype: torch.float32\ndataset:\n  seq_length: 1\n" },
	  .read = { "run_config.yaml" },
	  .expect =
		  "num_layers=32 num_query_groups=8 swiglu=true untie_embeddings_and_output_weights=true seq_length=8192 precision=bf16-mixed "
		  "zero_stage=1 accumulate_allreduce_grads_in_fp32=true main_grads_dtype=fp32 micro_batch_size=1 attention=flash padded_vocab_size=128256" },
};

#define LLAMA                                                                                                                       \
	"{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":2,\"num_attention_heads\":4," \
	"\"num_key_value_heads\":2,\"vocab_size\":100}"

static const struct given hugging_face[] = {
	/* 2 (64 x (64 + 32 + 32 + 64) + 3 x 64 x 128 + 2 x 64) + 2 x 100 x 64 + 64 */
	{ .name = "llama",
	  .files = { "config.json", LLAMA },
	  .read = { "config.json" },
	  .expect =
		  "num_parameters=86848 total_params=86848 largest_layer_params=8192 swiglu=true normalization=RMSNorm framework=transformers" },
	{ .name = "nested",
	  .files = { "config.json",
		     "{\"model_type\":\"llava\",\"text_config\":" LLAMA ",\"vision_config\":{}}" },
	  .read = { "config.json" },
	  .expect = "num_parameters=86848",
	  .say = { "text_config" } },
	{ .name = "layers changed",
	  .files = { "config.json", LLAMA, "more.json", "{\"num_layers\": 4}" },
	  .read = { "config.json", "more.json" },
	  .expect = "num_parameters=160832" },
	{ .name = "unknown type",
	  .files = { "config.json",
		     "{\"model_type\":\"mpt\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":2,"
		     "\"num_attention_heads\":4,\"vocab_size\":100}" },
	  .read = { "config.json" },
	  .expect = "num_layers=2 model_type=mpt num_parameters=- swiglu=- normalization=-" },
	{ .name = "bloom",
	  .files = { "config.json",
		     "{\"model_type\":\"bloom\",\"n_embed\":64,\"n_layer\":2,\"num_attention_heads\":8,\"n_inner\":null,\"vocab_size\":250880}" },
	  .read = { "config.json" },
	  /* 250880 h + 2 h + 2 (12 h^2 + 13 h) + 2 h */
	  .expect = "num_layers=2 ffn_hidden_size=256 num_parameters=16156544" },
	{ .name = "falcon",
	  .files = { "config.json",
		     "{\"model_type\":\"falcon\",\"hidden_size\":4544,\"num_hidden_layers\":32,\"num_attention_heads\":71,"
		     "\"num_kv_heads\":71,\"vocab_size\":65024,\"ffn_hidden_size\":null}" },
	  .read = { "config.json" },
	  /* tiiuae/falcon-7b, as transformers counts it */
	  .expect =
		  "num_query_groups=1 norms_per_layer=1 ffn_hidden_size=18176 num_parameters=6921720704 unmodelled_options=-" },
	{ .name = "falcon of groups",
	  .files = { "config.json",
		     "{\"model_type\":\"falcon\",\"hidden_size\":8192,\"num_hidden_layers\":60,\"num_attention_heads\":128,"
		     "\"num_kv_heads\":8,\"vocab_size\":65024,\"new_decoder_architecture\":true}" },
	  .read = { "config.json" },
	  /* tiiuae/falcon-40b, as transformers counts it: 65024 h + 60 (10 h^2 + 1024 h +
	   * 4 h) + 2 h */
	  .expect =
		  "num_query_groups=8 norms_per_layer=2 ffn_hidden_size=32768 num_parameters=41303293952" },
	{ .name = "falcon with ALiBi",
	  .files = { "config.json",
		     "{\"model_type\":\"falcon\",\"hidden_size\":2048,\"num_hidden_layers\":24,\"num_attention_heads\":32,"
		     "\"vocab_size\":50304,\"alibi\":true,\"bias\":true,\"multi_query\":false,\"parallel_attn\":false}" },
	  .read = { "config.json" },
	  /* tiiuae/falcon-rw-1b, as transformers counts it */
	  .expect =
		  "num_query_groups=32 norms_per_layer=2 num_parameters=1311625216 unmodelled_options=-" },
	/* bert-base-uncased, its classifier of two classes, and roberta-base, as transformers
	 * counts them */
	{ .name = "BERT",
	  .files = { "config.json",
		     "{\"model_type\":\"bert\",\"architectures\":[\"BertForMaskedLM\"],\"hidden_size\":768,\"intermediate_size\":3072,"
		     "\"num_hidden_layers\":12,\"num_attention_heads\":12,\"vocab_size\":30522,\"type_vocab_size\":2}" },
	  .read = { "config.json" },
	  .expect = "num_labels=- num_parameters=109514298 unmodelled_options=-" },
	{ .name = "BERT's classifier",
	  .files = { "config.json",
		     "{\"model_type\":\"bert\",\"architectures\":[\"BertForSequenceClassification\"],\"hidden_size\":768,"
		     "\"intermediate_size\":3072,\"num_hidden_layers\":12,\"num_attention_heads\":12,\"vocab_size\":30522,"
		     "\"hidden_dropout_prob\":0.2,\"classifier_dropout\":null}" },
	  .read = { "config.json" },
	  .expect =
		  "num_labels=2 hidden_dropout=0.2 classifier_dropout=- num_parameters=109483778" },
	{ .name = "RoBERTa",
	  .files = { "config.json",
		     "{\"model_type\":\"roberta\",\"hidden_size\":768,\"intermediate_size\":3072,\"num_hidden_layers\":12,"
		     "\"num_attention_heads\":12,\"vocab_size\":50265,\"type_vocab_size\":1,\"max_position_embeddings\":514}" },
	  .read = { "config.json" },
	  .expect = "num_parameters=124697433" },
	/* google/vit-base-patch16-224 with two classes, and larger patches without biases, as
	 * transformers counts them */
	{ .name = "ViT",
	  .files = { "config.json",
		     "{\"model_type\":\"vit\",\"hidden_size\":768,\"intermediate_size\":3072,\"num_hidden_layers\":12,"
		     "\"num_attention_heads\":12,\"image_size\":224,\"patch_size\":16}" },
	  .read = { "config.json" },
	  .expect = "seq_length=197 num_labels=2 num_parameters=85800194 unmodelled_options=-" },
	{ .name = "ViT of large patches",
	  .files = { "config.json",
		     "{\"model_type\":\"vit\",\"hidden_size\":768,\"intermediate_size\":3072,\"num_hidden_layers\":12,"
		     "\"num_attention_heads\":12,\"image_size\":[384,384],\"patch_size\":32,\"num_labels\":10,\"qkv_bias\":false}" },
	  .read = { "config.json" },
	  .expect = "seq_length=145 num_parameters=87508234 unmodelled_options=-" },
	{ .name = "T5 1.1, as transformers 5 writes it",
	  .files = { "config.json",
		     "{\"model_type\":\"t5\",\"d_model\":512,\"d_ff\":1024,\"num_layers\":8,\"num_heads\":6,\"vocab_size\":32128,"
		     "\"feed_forward_proj\":\"gated-gelu\",\"tie_word_embeddings\":true,\"scale_decoder_outputs\":false}" },
	  .read = { "config.json" },
	  .expect =
		  "hidden_act=gelu_new swiglu=true scale_decoder_outputs=false attention_dropout=0.1" },
	/* google/mt5-small, as transformers counts it */
	{ .name = "mT5",
	  .files = { "config.json",
		     "{\"model_type\":\"mt5\",\"d_model\":512,\"d_ff\":1024,\"num_layers\":8,\"num_heads\":6,\"vocab_size\":250112}" },
	  .read = { "config.json" },
	  .expect =
		  "hidden_act=gelu_new swiglu=true scale_decoder_outputs=false num_parameters=172119424" },
	{ .name = "no layers",
	  .files = { "config.json",
		     "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"num_attention_heads\":4,\"vocab_size\":9}" },
	  .read = { "config.json" },
	  .say = { "config.json", "num_hidden_layers" } },
	{ .name = "layers as text",
	  .files = { "config.json",
		     "{\"model_type\":\"llama\",\n\"num_hidden_layers\": \"many\"}" },
	  .read = { "config.json" },
	  .say = { "config.json:2", "num_hidden_layers", "many" } },
	{ .name = "an object for a number",
	  .files = { "config.json",
		     "{\"model_type\":\"llama\",\n\n\"num_hidden_layers\": {\"a\":1}}" },
	  .read = { "config.json" },
	  .say = { "config.json:3", "num_hidden_layers" } },
	{ .name = "heads do not divide",
	  .files = { "config.json",
		     "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":2,"
		     "\"num_attention_heads\":5,\"vocab_size\":100}" },
	  .read = { "config.json" },
	  .say = { "hidden_size 64", "num_attention_heads 5" } },
};

#define DS_AUTO                                                                                                                \
	"{\"train_micro_batch_size_per_gpu\":\"auto\",\"gradient_accumulation_steps\":\"auto\",\"train_batch_size\":\"auto\"," \
	"\"bf16\":{\"enabled\":\"auto\"},\"optimizer\":{\"type\":\"AdamW\",\"params\":{\"lr\":\"auto\"}},"                     \
	"\"zero_optimization\":{\"stage\":3,\"reduce_bucket_size\":\"auto\",\"stage3_prefetch_bucket_size\":\"auto\","         \
	"\"stage3_param_persistence_threshold\":\"auto\",\"offload_optimizer\":{\"device\":\"cpu\",\"pin_memory\":true}}}"

static const struct given deepspeed[] = {
	{ .name = "defaults",
	  .files = { "ds.json",
		     "{\"train_micro_batch_size_per_gpu\": 4, \"zero_optimization\": {\"stage\": 2, \"allgather_bucket_size\": 2e8}, "
		     "\"fp16\": {\"enabled\": true}, \"gradient_clipping\": 0.5, \"steps_per_print\": 10}" },
	  .read = { "ds.json" },
	  .expect =
		  "zero_stage=2 reduce_bucket_size=500000000 allgather_bucket_size=200000000 precision=fp16-mixed grad_scaler=true "
		  "micro_batch_size=4 overlap_comm=false clip_grad=0.5 offload_optimizer=none framework=deepspeed" },
	{ .name = "auto, resolved",
	  .files = { "config.json", LLAMA, "ds.json", DS_AUTO },
	  .argv = "deepspeed --num_gpus 4 run_clm.py --model_name_or_path config.json --deepspeed ds.json --per_device_train_batch_size 2 "
		  "--gradient_accumulation_steps 8 --bf16 --gradient_checkpointing --learning_rate 1e-5",
	  .expect =
		  "zero_stage=3 reduce_bucket_size=4096 stage3_prefetch_bucket_size=3686 stage3_param_persistence_threshold=640 "
		  "precision=bf16-mixed micro_batch_size=2 num_microbatches=8 world_size=4 data_parallel_size=4 global_batch_size=64 "
		  "offload_optimizer=cpu recompute_granularity=full optimizer=adamw" },
	{ .name = "auto, unresolved",
	  .files = { "ds.json", DS_AUTO },
	  .read = { "ds.json" },
	  .expect = "zero_stage=3 reduce_bucket_size=- precision=-",
	  .say = { "reduce_bucket_size is \"auto\"", "micro_batch_size is \"auto\"",
		   "precision is \"auto\"" } },
	{ .name = "base64",
	  /* {"zero_optimization":{"stage":1},"bf16":{"enabled":true}} */
	  .argv = "train.py --deepspeed_config eyJ6ZXJvX29wdGltaXphdGlvbiI6eyJzdGFnZSI6MX0sImJmMTYiOnsiZW5hYmxlZCI6dHJ1ZX19",
	  .expect = "zero_stage=1 precision=bf16-mixed" },
	{ .name = "unknown key",
	  .files = { "ds.json", "{\"zero_optimization\": {\"stage\": 1, \"stage4_magic\": 1}}" },
	  .read = { "ds.json" },
	  .expect = "zero_stage=1",
	  .say = { "zero_optimization.stage4_magic" } },
	{ .name = "stage 7",
	  .files = { "ds.json", "{\n\"zero_optimization\": {\n\"stage\": 7}}" },
	  .read = { "ds.json" },
	  .say = { "ds.json:3", "stage", "7", "from 0 to 3" } },
	{ .name = "two precisions",
	  .files = { "ds.json", "{\"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": true}}" },
	  .read = { "ds.json" },
	  .say = { "fp16.enabled", "bf16" } },
};

READER(megatron)
READER(hugging_face)
READER(deepspeed)

int main(void)
{
	const struct CMUnitTest tests[] = { T(read_megatron), T(read_hugging_face),
					    T(read_deepspeed) };

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
