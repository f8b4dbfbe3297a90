"""Jobs for memtrace match, and their wrong declarations: each table was written before any of its jobs ran."""
from accuracy_runs import FULL, GPT2, LLAMA, MEGATRON, MIXTRAL, QWEN_MOE

TWO = {"data_parallel_size": 2, "world_size": 2}
GATED = {"arch": "llama", "swiglu": True, "normalization": "RMSNorm", "position_embedding_type": "rope", "add_bias_linear": False}


def gpt2(width, heads, length, **more):
    return {**GPT2, "hidden_size": width, "num_attention_heads": heads, "ffn_hidden_size": 4 * width, "seq_length": length,
            "max_position_embeddings": length, **more}


def llama(width, heads, groups, ffn, **more):
    return {**LLAMA, "hidden_size": width, "num_attention_heads": heads, "num_query_groups": groups, "ffn_hidden_size": ffn, **more}


def megatron(width, heads, length, **more):
    return {**MEGATRON, "hidden_size": width, "num_attention_heads": heads, "num_query_groups": heads, "ffn_hidden_size": 4 * width,
            "seq_length": length, "max_position_embeddings": length, "world_size": 2, **more}


# For tables developed on the jobs of accuracy_runs.py.
NEW = {
    "x-qwen2": llama(896, 14, 2, 4864, model_type="qwen2", add_qkv_bias=True, num_layers=6, vocab_size=151936, seq_length=768, micro_batch_size=3),
    "x-llama": llama(1536, 12, 12, 4096, num_layers=5, vocab_size=128256, seq_length=1536, micro_batch_size=1, attention="eager", **FULL),
    "x-gpt2": gpt2(1280, 20, 640, num_layers=4, vocab_size=32768, micro_batch_size=6, precision="fp32"),
    "x-gpt2-fsdp2": gpt2(640, 10, 1024, num_layers=8, micro_batch_size=2, precision="bf16-mixed", fsdp=True, **TWO),
    "x-llama-ddp": llama(768, 12, 6, 2048, num_layers=4, seq_length=512, micro_batch_size=5, precision="bf16-autocast", **TWO),
    "x-megatron-tp": megatron(768, 12, 512, num_layers=6, vocab_size=50304, micro_batch_size=2, tensor_model_parallel_size=2),
    "x-megatron-pp": megatron(1024, 16, 768, num_layers=6, micro_batch_size=2, num_microbatches=3, pipeline_model_parallel_size=2,
                              **{**GATED, "num_query_groups": 8, "ffn_hidden_size": 2816}),
    "x-megatron-dp": megatron(1280, 20, 512, num_layers=3, data_parallel_size=2, use_distributed_optimizer=False),
    "x-gpt2-padded": gpt2(1024, 16, 512, num_layers=3, micro_batch_size=7, attention="eager", attention_mask_buffers=True),
    "x-llama-eager": llama(2048, 16, 8, 5632, num_layers=3, attention="eager"),
}
# job: (key, the declared value, None: nothing; the correct values)
WRONG = {
    "x-qwen2": ("micro_batch_size", "1", ("3",)),
    "x-llama": ("recompute_granularity", None, ("full",)),
    "x-gpt2": ("hidden_dropout", "0.1", ("0",)),
    "x-gpt2-fsdp2": ("seq_length", "2048", ("1024",)),
    "x-llama-ddp": ("num_query_groups", "12", ("6",)),
    "x-megatron-tp": ("tensor_model_parallel_size", "1", ("2",)),
    "x-megatron-pp": ("accumulate_allreduce_grads_in_fp32", "false", ("true",)),
    "x-megatron-dp": ("use_distributed_optimizer", "true", ("false",)),
    "x-gpt2-padded": ("vocab_size", "50257", ("50304",)),
    "x-llama-eager": ("attention", "flash", ("eager",)),
}

# More jobs, written later: mixtures of experts, sharding, and several axes at once.
ZERO = {"framework": "deepspeed", "precision": "bf16-mixed", "optimizer_implementation": "foreach", "overlap_comm": True, "reduce_bucket_size": 8000000,
        "norm_bias": False, "add_bias_linear": False, "swiglu": False, **TWO}
EXPERTS = {**GATED, "num_experts": 8, "moe_router_topk": 2, "moe_ffn_hidden_size": 1024, "moe_token_dispatcher_type": "alltoall"}


def experts(base, width, heads, groups, **more):
    return {**base, "hidden_size": width, "num_attention_heads": heads, "num_query_groups": groups, **more}


LATER = {
    "y-mixtral": experts(MIXTRAL, 512, 8, 2, num_layers=3, ffn_hidden_size=1792, num_experts=8, moe_router_topk=2, seq_length=640),
    "y-mixtral-recompute": experts(MIXTRAL, 640, 10, 5, num_layers=4, ffn_hidden_size=1280, num_experts=4, moe_router_topk=1, seq_length=768,
                                   micro_batch_size=3, **FULL),
    "y-mixtral-eager": experts(MIXTRAL, 768, 12, 4, num_layers=3, ffn_hidden_size=1024, num_experts=6, moe_router_topk=2, seq_length=512,
                               precision="bf16-autocast", experts_implementation="eager"),
    "y-qwen-moe": experts(QWEN_MOE, 512, 8, 4, num_layers=5, num_experts=12, moe_router_topk=4, moe_ffn_hidden_size=704, ffn_hidden_size=1408,
                          moe_shared_expert_intermediate_size=1408, seq_length=896),
    "y-mixtral-fsdp2": experts(MIXTRAL, 512, 8, 8, num_layers=4, ffn_hidden_size=1408, seq_length=512, fsdp=True, precision="bf16-mixed", **TWO),
    "y-llama-fsdp2-kept": llama(768, 12, 4, 2048, num_layers=5, seq_length=768, fsdp=True, precision="bf16-mixed", reshard_after_forward=False, **TWO),
    "y-gpt2-ddp-recompute": gpt2(768, 12, 512, num_layers=6, micro_batch_size=6, attention="eager", attention_mask_buffers=True, **FULL, **TWO),
    "y-llama-ddp": llama(640, 10, 2, 1792, num_layers=6, seq_length=384, micro_batch_size=3, precision="fp32", **TWO),
    "y-gpt2-zero2": gpt2(768, 12, 768, num_layers=5, micro_batch_size=3, **{**ZERO, "zero_stage": 2}),
    "y-gpt2-zero1": gpt2(512, 8, 512, num_layers=6, vocab_size=32000, micro_batch_size=4, **{**ZERO, "zero_stage": 1}),
    "y-llama-zero3": llama(768, 12, 4, 2048, num_layers=4, seq_length=512, **{**ZERO, "zero_stage": 3, "swiglu": True}),
    "y-llama-fsdp1": llama(768, 12, 6, 2048, num_layers=6, seq_length=640, fsdp=True, fsdp_version=1, precision="bf16-mixed", **TWO),
    "y-megatron-experts": megatron(768, 12, 640, num_layers=4, **{**EXPERTS, "num_query_groups": 4, "ffn_hidden_size": 2048, "world_size": 1}),
    "y-megatron-experts-ep": megatron(512, 8, 768, num_layers=5, data_parallel_size=2, expert_model_parallel_size=2,
                                      **{**EXPERTS, "num_query_groups": 8, "ffn_hidden_size": 1408}),
    "y-megatron-tp-dp": megatron(1024, 16, 640, num_layers=4, tensor_model_parallel_size=2, data_parallel_size=2, **{**GATED, "num_query_groups": 8,
                                 "ffn_hidden_size": 2816, "world_size": 4}),
    "y-gpt2-unpadded": gpt2(768, 12, 640, num_layers=4, vocab_size=50257, micro_batch_size=5, attention="eager", attention_mask_buffers=True),
    "y-llama-foreach": llama(1024, 16, 4, 2816, num_layers=6, seq_length=256, micro_batch_size=2, precision="fp32", optimizer_implementation="foreach"),
}
LATER_WRONG = {
    "y-mixtral": ("num_experts", "16", ("8",)),
    "y-qwen-moe": ("moe_router_topk", "2", ("4",)),
    "y-llama-fsdp2-kept": ("reshard_after_forward", "true", ("false",)),
    "y-gpt2-ddp-recompute": ("gradient_as_bucket_view", "true", ("false",)),
    "y-llama-ddp": ("fsdp", "true", ("false", None)),
    "y-gpt2-zero2": ("zero_stage", "1", ("2",)),
    "y-llama-zero3": ("offload_optimizer", "cpu", ("none", None)),
    "y-megatron-experts-ep": ("expert_model_parallel_size", "1", ("2",)),
    "y-megatron-tp-dp": ("sequence_parallel", "true", ("false",)),
    "y-llama-foreach": ("optimizer_implementation", "fused", ("foreach",)),
}
