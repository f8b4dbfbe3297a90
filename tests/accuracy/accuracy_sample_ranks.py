"""Jobs of several ranks drawn at random, as accuracy_sample.py draws jobs of one rank: DDP, FSDP, ZeRO, Megatron-core.

    python3 tests/accuracy/accuracy_sample_ranks.py SEED COUNT [KIND]
"""
import random
import sys

from accuracy_runs import COMMON, FEED, FULL, GPT2, LLAMA, MEGATRON, MIXTRAL
from accuracy_sample import fits, report, sizes_of

SIZE = {"num_layers": (2, 3, 4, 6), "head": (32, 64, 128), "num_attention_heads": (4, 8, 12), "widths": (2, 2.6875, 4),
        "vocab_size": (8000, 16000, 32003, 50304), "seq_length": (64, 128, 200, 512, 777, 1024), "micro_batch_size": (1, 2, 3, 4)}
ADAM = [{"optimizer": "adamw", "optimizer_implementation": kind} for kind in ("fused", "foreach", "loop")]
SGD = [{"optimizer": "sgd", "momentum": 0.9, "optimizer_implementation": kind} for kind in ("foreach", "loop")]
OTHERS = [{"optimizer": "rmsprop", "optimizer_implementation": "foreach"}, {"optimizer": "adagrad", "optimizer_implementation": "loop"}]
OWN = [{"optimizer": name, "optimizer_implementation": "loop"} for name in ("adafactor", "lion", "adam8bit", "muon")]


def model_of(draw, kinds=("gpt", "llama", "qwen2", "feed")):
    kind, sizes = draw(kinds), sizes_of(draw, SIZE)
    if kind == "feed":
        return {**FEED, **{k: sizes[k] for k in ("num_layers", "hidden_size", "ffn_hidden_size", "micro_batch_size")}}
    attention = draw(("sdpa", "eager"))
    if kind == "gpt":
        job = {**GPT2, **sizes, "max_position_embeddings": sizes["seq_length"], "hidden_dropout": draw((0.0, 0.0, 0.1)),
               "attention_mask_buffers": attention == "eager"}
    else:
        job = {**LLAMA, **sizes, "untie_embeddings_and_output_weights": draw((True, False)),
               "num_query_groups": draw((1, 4, sizes["num_attention_heads"]))}
        if kind == "qwen2":
            job.update(model_type="qwen2", add_qkv_bias=True)
        if kind == "mixtral":
            job.update({key: MIXTRAL[key] for key in ("model_type", "num_experts", "moe_router_topk")})
    job.update(attention=attention, attention_dropout=draw((0.0, 0.0, 0.1)))
    if draw((False, False, True)):
        job.update(FULL)
    return job


def ranks_of(draw):
    ranks = draw((2, 2, 2, 2, 4))
    return {"data_parallel_size": ranks, "world_size": ranks}


def ddp(draw):
    job = {**model_of(draw, ("gpt", "llama", "qwen2", "mixtral")), **ranks_of(draw), **draw(ADAM + SGD + OTHERS + OWN)}
    job.update(precision=draw(("bf16", "bf16-autocast", "fp32")), num_microbatches=draw((1, 1, 3)), clip_grad=draw((0.0, 1.0)),
               gradient_as_bucket_view=draw((False, True)))
    if draw((False, False, True)):
        job["ddp_bucket_cap_mb"] = draw((5, 100))
    return job


def fsdp(draw, version):
    job = {**model_of(draw), **ranks_of(draw), "fsdp": True, **draw(ADAM + SGD + OTHERS)}
    job.update(precision=draw(("fp32", "bf16-mixed")), reshard_after_forward=draw((True, True, False)))
    if job["framework"] != "torch":
        job.update(num_microbatches=draw((1, 1, 2)), clip_grad=draw((0.0, 1.0)))
    if version == 1:
        job.update(fsdp_version=1, num_microbatches=1, fsdp_units=draw(("blocks", "blocks", "model")))
    return job


def zero(draw, stage):
    job = {**model_of(draw), **ranks_of(draw), "framework": "deepspeed", "zero_stage": stage, **draw(ADAM)}
    job.update(precision=draw(("bf16-mixed", "bf16-mixed", "fp32")), overlap_comm=draw((True, False)), reduce_bucket_size=draw((5000000, 20000000, 200000000)))
    if "num_attention_heads" in job:
        job.update(norm_bias=False, add_bias_linear=False, swiglu=job["arch"] == "llama")
    if draw((False, False, True)):
        job["offload_optimizer"] = "cpu"
    if stage == 3:
        job.update(stage3_prefetch_bucket_size=draw((0, 1000000, 50000000)), stage3_max_reuse_distance=draw((0, 1000000000)),
                   stage3_param_persistence_threshold=draw((0, 100000, 2000000)))
    return job


LAYOUTS = [{}, {"tensor_model_parallel_size": 2}, {"tensor_model_parallel_size": 2, "sequence_parallel": True}, {"pipeline_model_parallel_size": 2},
           {"pipeline_model_parallel_size": 4}, {"pipeline_model_parallel_size": 2, "virtual_pipeline_model_parallel_size": 2},
           {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2, "sequence_parallel": True}, {"data_parallel_size": 2},
           {"pipeline_model_parallel_size": 2, "data_parallel_size": 2}, {"tensor_model_parallel_size": 2, "data_parallel_size": 2}]


def megatron(draw):
    layout, sizes, gated = draw(LAYOUTS), sizes_of(draw, SIZE), draw((False, True))
    job = {**MEGATRON, **sizes, **layout, "max_position_embeddings": sizes["seq_length"], "swiglu": gated}
    job["add_bias_linear"] = draw((not gated, not gated, gated))
    job.update(num_layers=draw((4, 8)), vocab_size=draw((8000, 32000, 50304)), num_query_groups=draw((4, sizes["num_attention_heads"])),
               normalization=draw(("LayerNorm", "RMSNorm")), position_embedding_type=draw(("learned_absolute", "rope")),
               arch="llama" if gated else "gpt", untie_embeddings_and_output_weights=draw((True, True, False)),
               num_microbatches=draw((1, 2, 4, 8)) * layout.get("pipeline_model_parallel_size", 1),
               use_distributed_optimizer=draw((True, True, False)), accumulate_allreduce_grads_in_fp32=draw((True, True, False)),
               hidden_dropout=draw((0.0, 0.0, 0.1)), attention_dropout=draw((0.0, 0.0, 0.1)), clip_grad=draw((1.0, 1.0, 0.0)))
    if layout.get("sequence_parallel"):
        job["seq_length"] = job["max_position_embeddings"] = sizes["seq_length"] // 2 * 2
    job.update(draw(({}, {}, FULL, {"recompute_granularity": "selective"})))
    if draw((False, False, False, True)):
        job.update(num_experts=4, moe_router_topk=2, moe_ffn_hidden_size=job["ffn_hidden_size"] // 2, add_bias_linear=False,
                   moe_token_dispatcher_type=draw(("alltoall", "allgather")))
        if layout.get("data_parallel_size") == 2 and draw((False, True)):
            job["expert_model_parallel_size"] = 2
        if layout.get("tensor_model_parallel_size") == 2:
            job.update(sequence_parallel=True, seq_length=sizes["seq_length"] // 2 * 2, max_position_embeddings=sizes["seq_length"] // 2 * 2)
    job["world_size"] = 1
    for key in ("tensor_model_parallel_size", "pipeline_model_parallel_size", "data_parallel_size"):
        job["world_size"] *= layout.get(key, 1)
    return job


def megatron_fsdp2(draw):
    """Megatron-core under PyTorch's fully_shard, which takes neither pipelines nor tied embeddings."""
    sizes, gated, ranks, tp = sizes_of(draw, SIZE), draw((False, True)), *draw(((2, 1), (2, 1), (4, 1), (4, 2)))
    job = {**MEGATRON, **sizes, "max_position_embeddings": sizes["seq_length"], "swiglu": gated, "add_bias_linear": draw((not gated, not gated, gated))}
    job.update(vocab_size=draw((8000, 32000, 50304)), num_query_groups=draw((4, sizes["num_attention_heads"])), arch="llama" if gated else "gpt",
               normalization=draw(("LayerNorm", "RMSNorm")), position_embedding_type=draw(("learned_absolute", "rope")),
               num_microbatches=draw((1, 2, 4)), use_torch_fsdp2=True, use_distributed_optimizer=False, clip_grad=draw((1.0, 0.0)),
               hidden_dropout=draw((0.0, 0.0, 0.1)), attention_dropout=draw((0.0, 0.0, 0.1)), reshard_after_forward=draw((True, True, True, False)),
               precision=draw(("bf16-mixed", "bf16-mixed", "bf16-mixed", "fp32")), tensor_model_parallel_size=tp,
               data_parallel_size=ranks // tp, world_size=ranks)
    job.update(draw(({}, {}, FULL, {"recompute_granularity": "selective"})))
    if draw((False, False, False, True)) and tp == 1:
        job.update(num_experts=4, moe_router_topk=2, moe_ffn_hidden_size=job["ffn_hidden_size"] // 2, add_bias_linear=False,
                   moe_token_dispatcher_type=draw(("alltoall", "allgather")))
    return job


def megatron_fsdp(draw):
    """Megatron-core's own FSDP."""
    job = megatron_fsdp2(draw)
    del job["use_torch_fsdp2"], job["reshard_after_forward"]
    strategy = draw(("no_shard", "optim", "optim_grads", "optim_grads_params", "optim_grads_params", "optim_grads_params"))
    job.update(use_megatron_fsdp=True, data_parallel_sharding_strategy=strategy, use_distributed_optimizer=True, overlap_grad_reduce=draw((True, False)),
               accumulate_allreduce_grads_in_fp32=draw((True, True, False)))
    if draw((False, False, True)):
        job["ddp_bucket_size"] = draw((1000000, 10000000))
    return job


def megatron_llava(draw):
    """Megatron-core's LLaVA, with neither experts nor sequence parallelism nor model chunks."""
    job = megatron(draw)
    while any(key in job for key in ("num_experts", "sequence_parallel", "virtual_pipeline_model_parallel_size")):
        job = megatron(draw)
    patch = draw((14, 16, 32))
    job.update(model_type="llava", patch_dim=patch, img_h=patch * draw((7, 12, 16)), img_w=patch * draw((8, 14)), encoder_num_layers=draw((2, 3, 5)),
               disable_vision_class_token=draw((False, True)), freeze_LM=draw((False, False, True)), freeze_ViT=draw((False, False, True)),
               untie_embeddings_and_output_weights=True)
    return job


KINDS = {"megatron": megatron, "megatron-llava": megatron_llava, "megatron-fsdp": megatron_fsdp, "megatron-fsdp2": megatron_fsdp2, "ddp": ddp, "fsdp1": lambda draw: fsdp(draw, 1), "fsdp2": lambda draw: fsdp(draw, 2), "zero1": lambda draw: zero(draw, 1),
         "zero2": lambda draw: zero(draw, 2), "zero3": lambda draw: zero(draw, 3)}
TURNS = ("megatron", "fsdp1", "zero3", "megatron", "ddp", "fsdp2", "zero2", "megatron", "zero1", "zero3")


def sample(seed, count, kind=None):
    """(name, job): all kinds in turn, or only one of them."""
    source, jobs = random.Random(seed), []
    while len(jobs) < count:
        now = kind or TURNS[len(jobs) % len(TURNS)]
        job = KINDS[now](lambda values: values[source.randrange(len(values))])
        if "vocab_size" not in job or fits(job):
            jobs.append(("%s-%d-%d" % (now, seed, len(jobs)), {**job, **{key: COMMON[key] for key in ("torch_version", "gpu")}}))
    return jobs


if __name__ == "__main__":
    report(sample(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
