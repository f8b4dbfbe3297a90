/* Arguments of Megatron-LM, torchtitan, Transformers, DeepSpeed and their launchers, and lines of
 * their files: none of them is a secret. */
#ifndef MEMTRACE_TEST_ORDINARY_ARGUMENTS_H
#define MEMTRACE_TEST_ORDINARY_ARGUMENTS_H

/* "|" is between two arguments. */
static const char *const ordinary_lines[] = {
	"pretrain_gpt.py|--num-layers|32|--hidden-size|4096|--num-attention-heads|32|--kv-channels|128",
	"--key-value-channels|128|--num-key-value-heads|8|--num-query-groups|8",
	"--max-tokens|4096|--max-tokens-to-oom|12000|--max_new_tokens=256|--tokens-per-batch|65536",
	"--tokenizer-type|GPT2BPETokenizer|--tokenizer-model|/data/llama/tokenizer.model",
	"--tokenizer-type|HuggingFaceTokenizer|--tokenizer-model|meta-llama/Meta-Llama-3.1-8B-Instruct",
	"--moe-token-dispatcher-type|alltoall|--moe-token-drop-policy|probs|--moe-pad-expert-input-to-capacity",
	"--data-path|1.0|/data/my-gpt2_text_document|--split|949,50,1|--json-keys|text|title",
	"--vocab-file|gpt2-vocab.json|--merge-file|gpt2-merges.txt|--eod-mask-loss|--reset-position-ids",
	"--position-embedding-type|rope|--max-position-embeddings|131072|--rotary-base|500000",
	"--no-query-key-layer-scaling|--apply-query-key-layer-scaling|--qk-layernorm|--qk-head-dim|128",
	"--tensor-model-parallel-size|4|--sequence-parallel|--recompute-method|uniform|--recompute-num-layers|1",
	"--optimizer|adam|--adam-beta1|0.9|--lr|3.0e-4|--lr-decay-style|cosine|--clip-grad|1.0",
	"--wandb-project|llama-70b-run7|--wandb-exp-name|tp8pp4-2024-11-22|--wandb-save-dir|/scratch/wandb",
	"--save|/checkpoints/llama3-70b/tp8_pp4/iter_0005000|--load|s3://bucket/checkpoints/llama3-70b",
	"--ckpt-format|torch_dist|--exit-signal-handler|--distributed-timeout-minutes|60|--rank|0",
	"--fp8-format|hybrid|--fp8-amax-history-len|1024|--transformer-impl|transformer_engine",
	"--job.config_file|./torchtitan/models/llama3/train_configs/llama3_8b.toml|--training.seq_len=8192",
	"--model.tokenizer_path=./assets/hf/Llama-3.1-8B|--parallelism.data_parallel_shard_degree=-1",
	"--activation_checkpoint.mode=selective|--activation_checkpoint.selective_ac_option=op|--metrics.enable_wandb",
	"--hf_assets_path=./assets/hf/Llama-3.1-8B|--checkpoint.initial_load_in_hf|hf_checkpoint_conversion=True",
	"--model_name_or_path|meta-llama/Llama-2-7b-hf|--torch_dtype|bfloat16|--attn_implementation|sdpa",
	"--per_device_train_batch_size|4|--gradient_accumulation_steps|8|--bf16|True|--tf32|True",
	"--label_names|labels|--text_column_name|text|--sort_key|length|--text-key|content|--group_by_key|id",
	"--bos_token|<s>|--eos_token|</s>|--pad-token|[PAD]|--pad_token_id|0|--image_token_index=32000",
	"--use_auth_token|True|--use_auth_token=False|--push_to_hub|False|--hub_model_id|me/llama-7b-sft",
	"--report_to|wandb|--run_name|qwen2.5-7b-lr1e5-bs128-2024-11-22-seed42|--output_dir|out/qwen2.5-7b",
	"--deepspeed|ds_config_zero3.json|--deepspeed_mpi|--zero-stage|3|--cpu-optimizer",
	"-m|deepspeed.launcher.launch|--world_info=eyJsb2NhbGhvc3QiOiBbMCwgMSwgMiwgM119|--master_addr=127.0.0.1|--master_port=29500",
	"--deepspeed_config|eyJ6ZXJvX29wdGltaXphdGlvbiI6eyJzdGFnZSI6MX19|--deepspeed=eyJ6ZXJvX29wdGltaXphdGlvbiI6eyJzdGFnZSI6MX19",
	"--world_info|eyJsb2NhbGhvc3QiOiBbMCwgMSwgMiwgM119|--node_rank=0",
	"-m|torch.distributed.run|--nproc-per-node|8|--rdzv-backend|c10d|--rdzv-endpoint|node-17.cluster:29400|--rdzv-id|12345",
	"--num_passes|3|--forward-pass|fused|--backward_pass_per_step=2|--pass|2|--single_pass|eager",
	"commit=8f14e45fceea167a5a36dedd4bea2543c0ffee12|--git-sha|0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d",
	"--revision|8f14e45fceea167a5a36dedd4bea2543c0ffee12|--run-id|550e8400-e29b-41d4-a716-446655440000",
	"--url|http://h:8080/a@b|--image|nvcr.io/nvidia/pytorch:24.10-py3|git+ssh://git@github.com/a/b.git",
	"-u|-p|8080|-k|8|-t|1:00:00|-p|gpu-a100-80gb|-n|4|-a|my_account|-ptrain|-Xfaulthandler|-Wignore",
	"+model.num_key_value_heads=8|trainer.max_steps=100|model.optim.name=adamw|~trainer.logger|exp_manager.name=gpt3-5b",
	"--keys|a,b,c|--sort-key|length|--key|length|--primary-key|id|--dataset_key=train|--key_padding_mask",
	"--metric-key=eval/loss_on_validation_set_of_2024|--state-dict-key|module.language_model.encoder.layers",
	"--lora_target_modules|q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj|--lora-key-dim=128",
	"--profile|--profile-ranks|0|8|--log-interval|10|--attention-dropout|0.0|--no-masked-softmax-fusion",
	"--ssh-private-key|/home/me/.ssh/id_ed25519|--auth|/etc/auth.json|--credentials|./gcp.json|--tls-key=~/x.key",
	"sk-1|sk-learn-pipeline|pypi-mirror|hf_transformers|npm_config|xoxo|ASIAN-languages|AKIAx|SG.linear|r8_small",
	"--author|me|--authors=a|--signal|USR1|--significant-digits|3|--patch-size|16|--patience=3|--passthrough|x",
	"--input-token-file|/data/tokens.bin|--tokenized-path|/data/tok|--token-type-ids|0|--password-file|/run/secret",
	"{\"train_batch_size\": 16, \"fp16\": {\"enabled\": true, \"loss_scale_window\": 1000}, \"wall_clock_breakdown\": false}",
	"--moe-layer-freq|([0]*3+[1]*58)|--pipeline-model-parallel-layout|Et*3|(tt|)*29,m|L",
};
static const char *const ordinary_files[] = {
	("{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"bos_token_id\": 128000,\n  \"eos_token_id\": [128001, 128008],\n"
	 "  \"num_key_value_heads\": 8,\n  \"max_position_embeddings\": 131072,\n  \"image_token_id\": 151655\n}\n"),
	"zero_optimization:\n  stage: 3\n  sub_group_size: 1e9\nmax_tokens: 4096\nsort_key: length\nbos_token: <s>\n",
	"tokenizer:\n  type: GPT2BPETokenizer\n  model: /data/tokenizer.model\nkey:\n  name: a\n  other: something else that is long\n",
	"commit: 8f14e45fceea167a5a36dedd4bea2543c0ffee12\nmodel: {name: llama3-70b, heads: [1, 2]}\n",
	"[job]\ndump_folder = \"./outputs\"\ntokenizer_path = \"./assets\"\nseed = 42\n",
	"# it's a comment\nname: 'it''s'\npath: /a/b # c\nurl: http://h:8080/a@b\n",
};

#endif
