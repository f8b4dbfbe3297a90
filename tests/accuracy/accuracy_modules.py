"""Recomputed and offloaded modules of Megatron-core, and experts that overlap with another micro-batch, at sizes drawn at random: the estimate
against the real framework on the simulated device.

    python3 tests/accuracy/accuracy_modules.py again|offloaded|overlapped [COUNT [SEED]]

Prints the relative errors of the peak and of what is allocated after the last step, job by job, of the worst rank.
"""
import random
import sys

import accuracy
import accuracy_runs
from accuracy_runs import MEGATRON, torchrun

LATENT = {"multi_latent_attention": True, "position_embedding_type": "rope", "qk_layernorm": True}
MODULES = ["layernorm", "mla_up_proj", "shared_experts", "mlp", "core_attn", "moe"]


def draw(random):
    """A job with one to three recomputed modules."""
    head, heads = random.choice([32, 64]), random.choice([4, 8, 12])
    gated = random.random() < 0.5
    job = {**MEGATRON, "num_layers": random.choice([3, 4, 6]), "hidden_size": head * heads, "num_attention_heads": heads, "num_query_groups": heads,
           "ffn_hidden_size": 128 * random.randint(6, 24), "vocab_size": 128 * random.randint(8, 40), "micro_batch_size": random.choice([1, 2, 4]),
           "num_microbatches": random.choice([1, 2, 3]), "seq_length": random.choice([256, 512, 768]), "swiglu": gated, "add_bias_linear": False,
           "normalization": "RMSNorm" if gated else "LayerNorm"}
    job["max_position_embeddings"] = job["seq_length"]
    latent, experts = random.random() < 0.4, random.random() < 0.5
    if latent:
        job.update(LATENT, q_lora_rank=32 * random.randint(2, 8), kv_lora_rank=32 * random.randint(2, 8), qk_head_dim=32,
                   qk_pos_emb_head_dim=random.choice([16, 32]), v_head_dim=head)
    if experts:
        job.update(num_experts=random.choice([4, 8]), moe_router_topk=2, moe_token_dispatcher_type="alltoall",
                   moe_ffn_hidden_size=128 * random.randint(4, 12), moe_shared_expert_intermediate_size=128 * random.randint(4, 16))
    if random.random() < 0.25:
        job.update(world_size=2, tensor_model_parallel_size=2, sequence_parallel=True)
    able = [m for m in MODULES if {"mla_up_proj": latent, "shared_experts": experts, "moe": experts, "mlp": not experts}.get(m, True)]
    modules = random.sample(able, random.randint(1, min(3, len(able))))
    if not {"layernorm", "mla_up_proj", "shared_experts"} & set(modules):
        modules[0] = "layernorm"
    if {"moe", "shared_experts"} <= set(modules):
        modules.remove("moe")
    return {**job, "recompute_granularity": "selective", "recompute_modules": ",".join(modules)}


def draw_offloaded(random):
    """A job with offloaded modules, some of which are recomputed, too. Tensors of 1024 x 1024 elements and more are offloaded."""
    job = draw(random)
    heads, gated = random.choice([4, 8, 12]), job["swiglu"]
    job.update(hidden_size=64 * heads * (2 if heads == 4 else 1), num_attention_heads=heads, num_query_groups=heads, seq_length=1024,
               max_position_embeddings=1024, micro_batch_size=random.choice([2, 3, 4]), num_microbatches=random.randint(1, 4),
               num_layers=random.choice([2, 4, 6]), ffn_hidden_size=128 * random.randint(6, 16))
    for key in ("world_size", "tensor_model_parallel_size", "sequence_parallel"):
        job.pop(key, None)
    if "q_lora_rank" in job:
        job.update(v_head_dim=job["hidden_size"] // heads)
    modules = [m for m in ("attn_norm", "mlp_norm", "qkv_linear", "core_attn") if random.random() < 0.6] or ["core_attn"]
    if "core_attn" in modules and random.random() < 0.6:
        modules.append("attn_proj")
    again = [m for m in job["recompute_modules"].split(",") if m in ("layernorm", "mla_up_proj") or (m == "mlp" and not gated)]
    if random.random() < 0.5 or not again:
        job.pop("recompute_granularity"), job.pop("recompute_modules")
    else:
        job["recompute_modules"] = ",".join(again)
    split = random.choice([0, 0, 1, 2])
    job.update({"world_size": 2, "pipeline_model_parallel_size": 2} if split else {"world_size": 1})
    if split == 2 and job["num_layers"] > 2:
        job.update(num_layers=4, virtual_pipeline_model_parallel_size=2, num_microbatches=4)
    return {**job, "fine_grained_activation_offloading": True, "offload_modules": ",".join(modules)}


def draw_overlapped(random):
    """A job whose experts overlap with another micro-batch, on one stage or interleaved on two; a third of them with offloaded modules."""
    head, heads, tokens = random.choice([32, 64]), random.choice([8, 12]), random.choice([256, 512, 1024])
    gated, offloaded = random.random() < 0.5, random.random() < 0.34
    job = {**MEGATRON, "num_layers": 4, "hidden_size": head * heads, "num_attention_heads": heads, "num_query_groups": heads,
           "ffn_hidden_size": 128 * random.randint(6, 16), "vocab_size": 128 * random.randint(8, 40), "micro_batch_size": random.choice([1, 2, 4]),
           "num_microbatches": random.choice([1, 2, 3, 5]), "seq_length": tokens, "swiglu": gated, "add_bias_linear": False,
           "normalization": "RMSNorm" if gated else "LayerNorm", "num_experts": random.choice([4, 8]), "moe_router_topk": random.choice([2, 3]),
           "moe_token_dispatcher_type": "alltoall", "moe_ffn_hidden_size": 128 * random.randint(4, 12), "expert_model_parallel_size": 2,
           "world_size": 2, "overlap_moe_expert_parallel_comm": True}
    if offloaded:
        job.update(hidden_size=64 * heads, seq_length=1024, micro_batch_size=random.choice([2, 3]), fine_grained_activation_offloading=True,
                   offload_modules=random.choice(["core_attn,attn_proj", "attn_norm,mlp_norm", "attn_norm,mlp_norm,qkv_linear,core_attn,attn_proj"]))
    job["max_position_embeddings"] = job["seq_length"]
    if random.random() < 0.5:
        job.update(world_size=4, pipeline_model_parallel_size=2, virtual_pipeline_model_parallel_size=2, num_layers=random.choice([4, 8]),
                   num_microbatches=random.choice([2, 4, 6]))
    if random.random() < 0.4:
        job.update(moe_shared_expert_intermediate_size=128 * random.randint(4, 12))
    if random.random() < 0.3:
        job.update(LATENT, q_lora_rank=32 * random.randint(2, 8), kv_lora_rank=32 * random.randint(2, 8), qk_head_dim=32,
                   qk_pos_emb_head_dim=32, v_head_dim=job["hidden_size"] // heads)
    if random.random() < 0.3:
        job.update(recompute_granularity="selective", recompute_modules="layernorm")
    if random.random() < 0.3:
        job.update(ep_overlap_early_attn_memory_release=True)
    return job


def errors(job):
    """The relative errors of the peak and of the steady state, of the worst rank; and the bytes of the peak."""
    ranks = job.get("world_size", 1)
    found = accuracy_runs.simulate(job, ranks, lambda *c: torchrun(ranks, *c))
    worst = max(found.values(), key=lambda entry: entry["peak_allocated_bytes"])
    stage = max(accuracy.estimates_of(job)["memtrace"]["per_stage"], key=lambda stage: stage["peak_bytes"])
    return stage["peak_bytes"] / worst["peak_allocated_bytes"] - 1, stage["steady_bytes"] / worst["steady_bytes"] - 1, worst


def main():
    make = {"again": draw, "offloaded": draw_offloaded, "overlapped": draw_overlapped}[sys.argv[1]]
    count, seed = (int(n) for n in (sys.argv[2:] + ["8", "1"][len(sys.argv) - 2:]))
    for i in range(count):
        job = make(random.Random("%d %d" % (seed, i)))
        peak, steady, worst = errors(job)
        shape = [word for word, key in (("latent", "q_lora_rank"), ("experts", "num_experts"), ("TP", "tensor_model_parallel_size"),
                                        ("PP", "pipeline_model_parallel_size"), ("VPP", "virtual_pipeline_model_parallel_size")) if key in job]
        print("%2d  peak %+7.3f %%  steady %+7.3f %%  %9.1f MiB  again %s  offloaded %s  %s" % (
            i, 100 * peak, 100 * steady, worst["peak_allocated_bytes"] / 2**20, job.get("recompute_modules", "-"), job.get("offload_modules", "-"),
            " ".join(shape)), flush=True)


if __name__ == "__main__":
    main()
