"""Runs the jobs of accuracy_jobs() on the simulated device with real PyTorch, and writes their memory to tests/accuracy/observed.json

    python3 tests/accuracy/accuracy_runs.py [PATTERN]       only jobs whose name contains PATTERN; the others keep their numbers
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import JOBS, MEMTRACE, ROOT, environment, python, torchrun  # noqa: E402

OBSERVED = os.path.join(ROOT, "tests", "accuracy", "observed.json")

COMMON = {"torch_version": "2.15.0", "gpu": "H100-80GB", "optimizer": "adamw", "optimizer_implementation": "fused"}
GPT2 = {"framework": "nanogpt", "arch": "gpt", "num_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "ffn_hidden_size": 3072,
        "vocab_size": 50304, "seq_length": 1024, "max_position_embeddings": 1024, "micro_batch_size": 4, "attention": "sdpa",
        "position_embedding_type": "learned_absolute", "precision": "bf16-autocast", **COMMON}
LLAMA = {"framework": "transformers", "transformers_version": "5.23.0", "arch": "llama", "num_layers": 8, "hidden_size": 1024,
         "num_attention_heads": 16, "num_query_groups": 4, "ffn_hidden_size": 2816, "vocab_size": 32000, "seq_length": 1024,
         "micro_batch_size": 2, "attention": "sdpa", "precision": "bf16", "untie_embeddings_and_output_weights": True, **COMMON}
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_layers": 4, "hidden_size": 768, "num_attention_heads": 12, "ffn_hidden_size": 1536,
           "vocab_size": 16000, "num_experts": 8, "moe_router_topk": 2}
QWEN_MOE = {**LLAMA, "model_type": "qwen2_moe", "num_layers": 4, "hidden_size": 768, "num_attention_heads": 12, "ffn_hidden_size": 2048,
            "vocab_size": 16000, "add_qkv_bias": True, "num_experts": 16, "moe_router_topk": 4, "moe_ffn_hidden_size": 512,
            "moe_shared_expert_intermediate_size": 2048}
MEGATRON = {"framework": "megatron-core", "megatron_core_version": "0.16.1", "transformer_impl": "local", "arch": "gpt", "num_layers": 4,
            "hidden_size": 1024, "num_attention_heads": 16, "num_query_groups": 16, "ffn_hidden_size": 4096, "vocab_size": 32000,
            "seq_length": 1024, "max_position_embeddings": 1024, "micro_batch_size": 1, "num_microbatches": 4,
            "use_distributed_optimizer": True, "accumulate_allreduce_grads_in_fp32": True, "position_embedding_type": "learned_absolute",
            "normalization": "LayerNorm", "swiglu": False, "add_bias_linear": True, "untie_embeddings_and_output_weights": True,
            "attention": "eager", "precision": "bf16-mixed", **COMMON, "optimizer": "adam", "world_size": 1}
BERT = {"model_type": "bert", "untie_embeddings_and_output_weights": False, "seq_length": 512, "max_position_embeddings": 512, "micro_batch_size": 4}
T5 = {**BERT, "model_type": "t5", "encoder_num_layers": 3, "decoder_seq_length": 128}
LLAVA = {"model_type": "llava", "img_h": 224, "img_w": 224, "patch_dim": 14, "encoder_num_layers": 3, "seq_length": 512, "max_position_embeddings": 512,
         "micro_batch_size": 2}
MIMO = {"model_type": "mimo", "seq_length": 640, "max_position_embeddings": 640, "micro_batch_size": 2, "position_embedding_type": "rope",
        "normalization": "RMSNorm", "swiglu": True, "add_bias_linear": False, "ffn_hidden_size": 2816}
FEED = {"framework": "torch", "arch": "gpt", "num_layers": 6, "hidden_size": 1024, "ffn_hidden_size": 4096, "seq_length": 1, "swiglu": False,
        "micro_batch_size": 64, "precision": "fp32", **COMMON, "optimizer_implementation": "loop"}
ZERO = {**FEED, "framework": "deepspeed", "precision": "bf16-mixed", "optimizer_implementation": "foreach", "data_parallel_size": 2,
        "world_size": 2, "zero_stage": 2, "overlap_comm": True, "reduce_bucket_size": 50000000}
LATE = {"num_layers": 8, "hidden_size": 512, "num_query_groups": 4, "num_microbatches": 8, "add_bias_linear": False,
        "untie_embeddings_and_output_weights": False, "optimizer_implementation": "fused", "hidden_dropout": 0.0}
DELTA = {"experimental_attention_variant": "gated_delta_net", "linear_conv_kernel_dim": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
         "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_attention_freq": "2", "hidden_size": 512, "num_attention_heads": 8,
         "vocab_size": 8000, "num_layers": 2, "num_microbatches": 2, "seq_length": 512, "max_position_embeddings": 512, "deterministic_mode": True}
FULL = {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}


def accuracy_jobs():
    """(class, name, job)"""
    def gpt(name, **more):
        return "GPT-2", "gpt2-" + name, {**GPT2, **more}

    def llama(name, **more):
        return "Llama", "llama-" + name, {**LLAMA, **more}

    def megatron(name, world=1, **more):
        return "Megatron-core", "megatron-" + name, {**MEGATRON, "world_size": world, **more}

    def mixtral(name, **more):
        return "Mixtral", "mixtral-" + name, {**MIXTRAL, **more}

    def qwen_moe(name, **more):
        return "Qwen2-MoE", "qwen2-moe-" + name, {**QWEN_MOE, **more}

    small = {"seq_length": 128, "micro_batch_size": 1}  # the optimizer's step has the peak
    two = {"data_parallel_size": 2, "world_size": 2}
    zero = {k: ZERO[k] for k in ("framework", "precision", "optimizer_implementation", "data_parallel_size", "world_size", "zero_stage",
                                 "overlap_comm", "reduce_bucket_size")}
    zero.update(norm_bias=False, add_bias_linear=False, swiglu=False)
    zero3 = {"zero_stage": 3, "reduce_bucket_size": 20000000}
    bare = {**zero3, "overlap_comm": False, "stage3_prefetch_bucket_size": 0, "stage3_max_reuse_distance": 0, "sub_group_size": 10000000}
    four = {"data_parallel_size": 4, "world_size": 4}
    cpu = {"offload_optimizer": "cpu"}
    flat = {**two, "fsdp": True, "fsdp_version": 1}
    gated = {"arch": "llama", "swiglu": True, "normalization": "RMSNorm", "num_query_groups": 4, "ffn_hidden_size": 2816,
             "position_embedding_type": "rope", "add_bias_linear": False}
    experts = {**gated, "num_experts": 8, "moe_router_topk": 2, "moe_ffn_hidden_size": 1408, "moe_token_dispatcher_type": "alltoall"}
    eager = {"attention": "eager", "attention_mask_buffers": True}
    fp16 = {"precision": "fp16-autocast", "grad_scaler": True}
    torch_fsdp = {"data_parallel_size": 2, "use_torch_fsdp2": True, "use_distributed_optimizer": False}
    own_fsdp = {"data_parallel_size": 2, "use_megatron_fsdp": True, "data_parallel_sharding_strategy": "optim_grads_params"}
    return [
        gpt("sdpa-bf16"), gpt("eager-fp16", **eager, **fp16), gpt("eager-bf16", **eager), gpt("sdpa-fp32", precision="fp32"),
        gpt("sdpa-pure-bf16", precision="bf16"), gpt("eager-recompute", **eager, **FULL), gpt("sdpa-recompute-fp16", **FULL, **fp16),
        gpt("eager-dropout", **eager, attention_dropout=0.1, hidden_dropout=0.1),
        gpt("sdpa-dropout-foreach-clip", attention_dropout=0.1, hidden_dropout=0.1, optimizer_implementation="foreach", clip_grad=1.0),
        gpt("sdpa-loop", optimizer_implementation="loop"), gpt("sdpa-sgd", optimizer="sgd", momentum=0.9),
        gpt("sdpa-short", seq_length=256, max_position_embeddings=256, micro_batch_size=16),
        llama("sdpa"), llama("eager", attention="eager"), llama("eager-recompute", attention="eager", **FULL), llama("sdpa-recompute", **FULL),
        llama("sdpa-autocast", precision="bf16-autocast"), llama("eager-autocast", attention="eager", precision="bf16-autocast"),
        llama("sdpa-fp32", precision="fp32"), llama("sdpa-no-groups", num_query_groups=16),
        llama("eager-no-groups", attention="eager", num_query_groups=16), llama("foreach", optimizer_implementation="foreach"),
        llama("clip", clip_grad=1.0), llama("tied", untie_embeddings_and_output_weights=False),
        ("Qwen2", "qwen2-sdpa", {**LLAMA, "model_type": "qwen2", "add_qkv_bias": True}),
        ("Qwen2", "qwen2-eager-recompute", {**LLAMA, "model_type": "qwen2", "add_qkv_bias": True, "attention": "eager", **FULL}),
        ("Qwen2", "qwen2-autocast", {**LLAMA, "model_type": "qwen2", "add_qkv_bias": True, "precision": "bf16-autocast"}),
        mixtral("grouped"), mixtral("eager", experts_implementation="eager"), mixtral("eager-attention", attention="eager"),
        mixtral("batched", experts_implementation="batched_mm", seq_length=64), mixtral("autocast", precision="bf16-autocast"),
        mixtral("fp32", precision="fp32"), mixtral("eager-fp32", precision="fp32", experts_implementation="eager"),
        mixtral("eager-autocast", precision="bf16-autocast", experts_implementation="eager"), mixtral("recompute", **FULL),
        mixtral("eager-recompute", experts_implementation="eager", **FULL), mixtral("router-loss", output_router_logits=True),
        mixtral("ddp", **two), mixtral("fsdp2", **two, fsdp=True, precision="bf16-mixed"),
        mixtral("eager-fsdp2", **two, fsdp=True, precision="bf16-mixed", experts_implementation="eager"),
        qwen_moe("grouped"), qwen_moe("eager", experts_implementation="eager"), qwen_moe("autocast", precision="bf16-autocast"),
        qwen_moe("recompute-eager-attention", attention="eager", **FULL), qwen_moe("fp32", precision="fp32"),
        qwen_moe("router-loss", output_router_logits=True), qwen_moe("fsdp2", **two, fsdp=True, precision="bf16-mixed"),
        llama("adafactor", **small, optimizer="adafactor", optimizer_implementation="loop"),
        llama("adafactor-foreach", **small, optimizer="adafactor", optimizer_implementation="foreach"),
        llama("transformers-adafactor", **small, optimizer="transformers-adafactor"), llama("lion", **small, optimizer="lion"),
        llama("adam8bit", **small, optimizer="adam8bit"), llama("muon", **small, optimizer="muon"),
        llama("muon-fp32", **small, optimizer="muon", precision="fp32"),
        gpt("adafactor", **small, optimizer="adafactor", optimizer_implementation="loop"),
        gpt("transformers-adafactor", **small, optimizer="transformers-adafactor"), gpt("adam8bit", optimizer="adam8bit"),
        gpt("rmsprop", **small, optimizer="rmsprop", momentum=0.9, optimizer_implementation="foreach"),
        gpt("rmsprop-loop", **small, optimizer="rmsprop", optimizer_implementation="loop", clip_grad=1.0),
        gpt("adagrad", **small, optimizer="adagrad", optimizer_implementation="foreach"),
        gpt("nesterov-loop", **small, optimizer="sgd", momentum=0.9, nesterov=True, optimizer_implementation="loop"),
        gpt("nesterov-kept-gradients", optimizer="sgd", momentum=0.9, nesterov=True, optimizer_implementation="foreach",
            zero_grad_set_to_none=False, clip_grad=1.0),
        # causes of errors that jobs drawn at random showed
        gpt("small-pure-bf16", **small, precision="bf16"), llama("small-tied", **small, untie_embeddings_and_output_weights=False),
        llama("one-kv-head", num_query_groups=1), llama("one-kv-head-eager", num_query_groups=1, attention="eager"),
        llama("one-sequence", micro_batch_size=1), llama("packed", packed_sequences=True),
        llama("packed-eager", attention="eager", packed_sequences=True),
        llama("one-sequence-autocast", micro_batch_size=1, num_query_groups=1, precision="bf16-autocast"),
        llama("packed-one-sequence", micro_batch_size=1, packed_sequences=True, num_query_groups=1, precision="bf16-autocast"),
        llama("odd-length", seq_length=777), llama("attention-dropout", attention_dropout=0.1),
        llama("eager-dropout-autocast", attention="eager", attention_dropout=0.1, precision="bf16-autocast", seq_length=200),
        gpt("muon", **small, optimizer="muon", clip_grad=1.0), gpt("accumulated", num_microbatches=4),
        llama("accumulated", num_microbatches=4, clip_grad=1.0), llama("kept-gradients-foreach", zero_grad_set_to_none=False,
                                                                       optimizer_implementation="foreach"),
        ("Llama DDP", "llama-ddp-accumulated", {**LLAMA, **two, "num_microbatches": 3}),
        ("Llama FSDP2", "llama-fsdp2-accumulated", {**LLAMA, **two, "fsdp": True, "precision": "bf16-mixed", "num_microbatches": 3}),
        ("GPT-2 DDP", "gpt2-ddp", {**GPT2, **two}), ("GPT-2 DDP", "gpt2-ddp-views", {**GPT2, **two, "gradient_as_bucket_view": True}),
        ("Llama DDP", "llama-ddp", {**LLAMA, **two}),
        ("Llama FSDP2", "llama-fsdp2", {**LLAMA, **two, "fsdp": True, "precision": "bf16-mixed"}),
        ("Llama FSDP2", "llama-fsdp2-kept", {**LLAMA, **two, "fsdp": True, "precision": "bf16-mixed", "reshard_after_forward": False}),
        ("GPT-2 FSDP2", "gpt2-fsdp2-fp32", {**GPT2, **two, "fsdp": True, "precision": "fp32"}),
        ("GPT-2 FSDP2", "gpt2-fsdp2-odd-rows", {**GPT2, **two, "fsdp": True, "precision": "bf16-mixed", "num_layers": 4, "vocab_size": 50257}),
        ("GPT-2 FSDP2", "gpt2-fsdp2-pure-bf16", {**GPT2, **two, "fsdp": True, "precision": "bf16", "num_layers": 4}),
        ("GPT-2 FSDP2", "gpt2-fsdp2-kept-gradients", {**GPT2, **two, "fsdp": True, "precision": "fp32", "num_layers": 4,
                                                      "zero_grad_set_to_none": False}),
        ("FSDP1", "gpt2-fsdp1-accumulated", {**GPT2, **flat, "precision": "bf16-mixed", "num_layers": 4, "num_microbatches": 3}),
        ("FSDP1", "gpt2-fsdp1-adafactor", {**GPT2, **flat, "precision": "fp32", "num_layers": 4, "optimizer": "adafactor",
                                           "optimizer_implementation": "loop"}),
        ("FSDP1", "llama-fsdp1", {**LLAMA, **flat, "precision": "bf16-mixed"}),
        ("FSDP1", "llama-fsdp1-kept", {**LLAMA, **flat, "precision": "bf16-mixed", "reshard_after_forward": False}),
        ("FSDP1", "gpt2-fsdp1-fp32", {**GPT2, **flat, "precision": "fp32"}),
        ("FSDP1", "gpt2-fsdp1-one-unit", {**GPT2, **flat, "precision": "bf16-mixed", "fsdp_units": "model"}),
        ("FSDP1", "feed-forward-fsdp1", {**FEED, **flat}), ("FSDP1", "feed-forward-fsdp1-bf16", {**FEED, **flat, "precision": "bf16-mixed"}),
        ("DeepSpeed ZeRO", "feed-forward-zero1", {**ZERO, "zero_stage": 1}), ("DeepSpeed ZeRO", "feed-forward-zero2", ZERO),
        ("DeepSpeed ZeRO", "gpt2-zero1", {**GPT2, **zero, "zero_stage": 1}), ("DeepSpeed ZeRO", "gpt2-zero2", {**GPT2, **zero}),
        ("DeepSpeed ZeRO", "feed-forward-zero2-fp32", {**ZERO, "precision": "fp32"}),
        ("DeepSpeed ZeRO", "feed-forward-zero2-small-bucket", {**ZERO, "overlap_comm": False, "reduce_bucket_size": 5000000}),
        ("DeepSpeed ZeRO-3", "feed-forward-zero3", {**ZERO, **zero3}),
        ("DeepSpeed ZeRO-3", "llama-zero3", {**LLAMA, **zero, **zero3, "swiglu": True}),
        ("DeepSpeed ZeRO-3", "gpt2-zero3", {**GPT2, **zero, **zero3}),
        ("DeepSpeed ZeRO-3", "llama-zero3-four-ranks", {**LLAMA, **zero, **zero3, **four, "num_layers": 4, "swiglu": True}),
        ("DeepSpeed ZeRO-3", "gpt2-zero3-fp32", {**GPT2, **zero, **zero3, "precision": "fp32", "num_layers": 6}),
        ("DeepSpeed ZeRO-3", "llama-zero3-bare", {**LLAMA, **zero, **bare, "swiglu": True}),
        ("DeepSpeed ZeRO-3", "gpt2-zero3-init", {**GPT2, **zero, **zero3, "zero_init": True, "stage3_max_live_parameters": 50000000}),
        # experts' weights that views keep, and tensors that recomputation creates again
        ("DeepSpeed ZeRO-3", "mixtral-zero3", {**MIXTRAL, **zero, **zero3, "swiglu": True}),
        ("DeepSpeed ZeRO-3", "mixtral-zero3-eager-recompute", {**MIXTRAL, **zero, **zero3, **FULL, "swiglu": True, "experts_implementation": "eager"}),
        ("DeepSpeed ZeRO-3", "qwen2-moe-zero3", {**QWEN_MOE, **zero, **zero3, "swiglu": True}),
        ("DeepSpeed ZeRO-3", "llama-zero3-recompute", {**LLAMA, **zero, **zero3, **FULL, "swiglu": True}),
        ("DeepSpeed ZeRO-3", "gpt2-zero3-eager-recompute", {**GPT2, **zero, **zero3, **eager, **FULL, "num_layers": 6, "hidden_dropout": 0.1}),
        ("DeepSpeed ZeRO", "gpt2-zero1-late", {**GPT2, **zero, "zero_stage": 1, "overlap_comm": False, "reduce_bucket_size": 5000000,
                                              **small, "max_position_embeddings": 128}),
        ("DeepSpeed ZeRO", "feed-forward-zero2-lion", {**ZERO, "optimizer": "lion", "optimizer_implementation": "loop"}),
        ("DeepSpeed ZeRO", "feed-forward-zero2-sgd", {**ZERO, "optimizer": "sgd", "momentum": 0.9}),
        ("DeepSpeed ZeRO-3", "feed-forward-zero3-sgd", {**ZERO, **zero3, "optimizer": "sgd", "momentum": 0.9, "nesterov": True,
                                                        "optimizer_implementation": "loop", "sub_group_size": 10000000}),
        ("DeepSpeed offload", "gpt2-zero2-offload", {**GPT2, **zero, **cpu}),
        ("DeepSpeed offload", "feed-forward-zero1-offload", {**ZERO, **cpu, "zero_stage": 1}),
        ("DeepSpeed offload", "llama-zero3-offload", {**LLAMA, **zero, **zero3, **cpu, "swiglu": True}),
        ("DeepSpeed offload", "gpt2-zero3-offload-all", {**GPT2, **zero, **zero3, **cpu, "offload_param": "cpu"}),
        megatron("gpt"), megatron("llama", **gated), megatron("recompute", **FULL),
        megatron("selective", recompute_granularity="selective"), megatron("dp", 2, data_parallel_size=2),
        megatron("tp", 2, tensor_model_parallel_size=2), megatron("tp-sp", 2, tensor_model_parallel_size=2, sequence_parallel=True, **gated),
        megatron("pp", 2, pipeline_model_parallel_size=2), megatron("pp-recompute", 2, pipeline_model_parallel_size=2, **FULL),
        megatron("pp-interleaved", 2, pipeline_model_parallel_size=2, virtual_pipeline_model_parallel_size=2),
        megatron("experts", **experts), megatron("experts-allgather", **{**experts, "moe_token_dispatcher_type": "allgather"}),
        megatron("experts-ep", 2, **experts, expert_model_parallel_size=2, data_parallel_size=2),
        megatron("experts-ep-allgather", 2, **{**experts, "moe_token_dispatcher_type": "allgather"}, expert_model_parallel_size=2,
                 data_parallel_size=2),
        megatron("experts-tp-sp", 2, **experts, tensor_model_parallel_size=2, sequence_parallel=True),
        megatron("experts-ep-tp-sp", 4, **experts, expert_model_parallel_size=2, tensor_model_parallel_size=2, sequence_parallel=True,
                 expert_tensor_parallel_size=1, data_parallel_size=2),
        megatron("experts-recompute", **experts, **FULL),
        megatron("pp-interleaved-dp", 4, pipeline_model_parallel_size=2, virtual_pipeline_model_parallel_size=2, data_parallel_size=2),
        megatron("mtp", mtp_num_layers=1), megatron("mtp-two", mtp_num_layers=2, **gated, micro_batch_size=2, num_layers=2),
        megatron("moe-again", recompute_granularity="selective", recompute_modules="core_attn,moe", **experts),
        megatron("mtp-recompute", mtp_num_layers=1, **FULL), megatron("mtp-experts", mtp_num_layers=1, **experts),
        megatron("mtp-pp", 2, mtp_num_layers=1, pipeline_model_parallel_size=2),
        megatron("mtp-tp-sp", 2, mtp_num_layers=1, tensor_model_parallel_size=2, sequence_parallel=True, **gated),
        megatron("mtp-layout", 2, mtp_num_layers=1, pipeline_model_parallel_size=2, virtual_pipeline_model_parallel_size=2,
                 pipeline_model_parallel_layout="Et|tt|t|mL"),
        megatron("t5", **T5), megatron("t5-tp-sp", 2, **T5, tensor_model_parallel_size=2, sequence_parallel=True),
        megatron("bert", **BERT), megatron("bert-pp-dropout", 2, **BERT, pipeline_model_parallel_size=2, hidden_dropout=0.1, attention_dropout=0.1),
        megatron("bert-tp-words", 2, **{**BERT, "bert_binary_head": False}, tensor_model_parallel_size=2),
        megatron("llava", **LLAVA), megatron("llava-tp-dropout", 2, **LLAVA, tensor_model_parallel_size=2, hidden_dropout=0.1, attention_dropout=0.1),
        megatron("llava-frozen", **LLAVA, freeze_LM=True), megatron("llava-frozen-images", **LLAVA, freeze_ViT=True, disable_vision_class_token=True),
        megatron("llava-recompute", **LLAVA, **FULL), megatron("llava-pp", 2, **LLAVA, pipeline_model_parallel_size=2),
        megatron("mimo", **MIMO), megatron("bf16-gradients", accumulate_allreduce_grads_in_fp32=False),
        megatron("plain-optimizer", use_distributed_optimizer=False),
        megatron("fp16", 2, data_parallel_size=2, precision="fp16-mixed"), megatron("fp32", 2, data_parallel_size=2, precision="fp32"),
        megatron("sgd", 2, data_parallel_size=2, optimizer="sgd", momentum=0.9, use_distributed_optimizer=False),
        megatron("tied-pp-dropout", 2, pipeline_model_parallel_size=2, untie_embeddings_and_output_weights=False, hidden_dropout=0.1,
                 attention_dropout=0.1, recompute_granularity="selective"),
        megatron("recompute-block", **{**FULL, "recompute_method": "block", "recompute_num_layers": 3}),
        megatron("recompute-groups", **{**FULL, "recompute_num_layers": 2}),
        megatron("experts-recompute-block", **experts, **{**FULL, "recompute_method": "block", "recompute_num_layers": 1}),
        megatron("pp-recompute-block", 2, num_layers=8, pipeline_model_parallel_size=2, num_microbatches=8,
                 **{**FULL, "recompute_method": "block", "recompute_num_layers": 2}),
        megatron("pp-recompute-groups", 2, num_layers=8, pipeline_model_parallel_size=2, num_microbatches=8,
                 **{**FULL, "recompute_num_layers": 4}),
        megatron("delta-net", **{**gated, **DELTA, "micro_batch_size": 2}),
        megatron("delta-net-tp-sp-gate", 2, **{**gated, **DELTA, "seq_length": 300, "max_position_embeddings": 300}, tensor_model_parallel_size=2,
                 sequence_parallel=True, attention_output_gate=True),
        megatron("delta-net-fla-recompute", **{**DELTA, "deterministic_mode": False, "linear_attention_freq": "[1,0,1]", "num_layers": 3, "num_query_groups": 8,
                                               "linear_value_head_dim": 128}, **FULL),
        megatron("fsdp2", 2, **torch_fsdp), megatron("fsdp2-kept", 2, **torch_fsdp, reshard_after_forward=False, num_microbatches=1),
        megatron("fsdp2-tp-recompute", 4, **torch_fsdp, **gated, **FULL, tensor_model_parallel_size=2),
        megatron("own-fsdp", 2, **own_fsdp), megatron("own-fsdp-optim", 2, **{**own_fsdp, "data_parallel_sharding_strategy": "optim"}),
        megatron("own-fsdp-gradients", 2, **{**own_fsdp, "data_parallel_sharding_strategy": "optim_grads", "ddp_bucket_size": 20000000}),
        megatron("own-fsdp-experts-ep", 4, **{**own_fsdp, **four}, **experts, expert_model_parallel_size=2, **FULL),
        # free blocks are split otherwise in each micro-batch: the peak is that of a late one
        megatron("pp-micro-batches", 2, **LATE, num_attention_heads=8, pipeline_model_parallel_size=2, ffn_hidden_size=1024,
                 vocab_size=50304, seq_length=777, max_position_embeddings=777, micro_batch_size=4, normalization="RMSNorm",
                 attention_dropout=0.1, clip_grad=1.0),
        megatron("pp-dp-micro-batches", 4, **LATE, num_attention_heads=4, pipeline_model_parallel_size=2, data_parallel_size=2,
                 arch="llama", ffn_hidden_size=2048, vocab_size=8000, seq_length=512, max_position_embeddings=512,
                 position_embedding_type="rope", swiglu=True, clip_grad=0.0, recompute_granularity="selective"),
    ]


def settings_of(jobs):
    """What the environment of a job with gated delta nets has besides; its caches are empty, so that each kernel measures its configurations."""
    if not isinstance(jobs, dict) or "experimental_attention_variant" not in jobs:
        return {}
    fla = subprocess.run([os.path.join(ROOT, "tests", "fla-env.sh")], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return {"PYTHONPATH": fla}


def simulate(jobs, ranks, launch):
    """The lines that every job, or every rank of one job, wrote."""
    with tempfile.TemporaryDirectory(prefix="memtrace-accuracy-") as directory:
        path, out = os.path.join(directory, "job.json"), os.path.join(directory, "out")
        with open(path, "w") as f:
            json.dump(jobs, f)
        command = launch(os.path.join(JOBS, "declared.py"), path, out)
        settings = {**settings_of(jobs), "TRITON_CACHE_DIR": os.path.join(directory, "triton"), "TORCHINDUCTOR_CACHE_DIR": os.path.join(directory, "inductor")}
        done = subprocess.run([MEMTRACE, "simulate", "-o", os.path.join(directory, "traces"), "--gpu", COMMON["gpu"], "--gpus", str(ranks), "--",
                               *command], env=environment(**settings), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=1800)
        found = {}
        for name in os.listdir(directory):
            if name.startswith("out."):
                with open(os.path.join(directory, name)) as f:
                    found[int(name[4:])] = json.load(f)
        if done.returncode or not found:
            print(done.stderr[-2000:], file=sys.stderr)
        return found


def run(job):
    """The numbers of the worst rank, or none."""
    ranks = job.get("world_size", 1)
    alone = ranks == 1 and job["framework"] != "megatron-core"
    found = simulate(job, ranks, (lambda *c: [python(), *c]) if alone else lambda *c: torchrun(ranks, *c))
    if len(found) < ranks:
        return None
    worst = max(found.values(), key=lambda entry: entry["peak_allocated_bytes"])
    return {**worst, "peak_reserved_bytes": max(entry["peak_reserved_bytes"] for entry in found.values())}


def write(rows):
    with open(OBSERVED, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    known = {}
    if os.path.exists(OBSERVED):
        with open(OBSERVED) as f:
            known = {row["name"]: row for row in json.load(f)}
    rows = [{"name": name, "class": kind, "job": job} for kind, name, job in accuracy_jobs()]
    wanted = [row for row in rows if row["name"] not in known or known[row["name"]]["job"] != row["job"] or (pattern and pattern in row["name"])]
    alone = [row for row in wanted if "world_size" not in row["job"]]
    if alone:
        for i, found in simulate([row["job"] for row in alone], 1, lambda *c: [python(), *c]).items():
            known[alone[i]["name"]] = {**alone[i], **found}
        write([known[row["name"]] for row in rows if row["name"] in known])
    for row in wanted:
        if "world_size" in row["job"]:
            found = run(row["job"])
            print(row["name"], found, flush=True)
            if found:
                known[row["name"]] = {**row, **found}
            write([known[r["name"]] for r in rows if r["name"] in known])


if __name__ == "__main__":
    main()
