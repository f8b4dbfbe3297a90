"""Runs the training job of a declared configuration, and writes PyTorch's counters: declared.py JOB.json OUT

JOB.json has the keys of memtrace-config(5). OUT.RANK gets the peaks and what is allocated after the last step. With a list of jobs for
one process, each runs in a child of its own (before which no GPU was touched), and OUT.0, OUT.1, … are those of the jobs.
"""
import json
import math
import os
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
STEPS = 3


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, None, 1e-5)


class Attention(nn.Module):
    def __init__(self, job):
        super().__init__()
        width, length = job["hidden_size"], job["max_position_embeddings"]
        self.heads, self.eager = job["num_attention_heads"], job["attention"] == "eager"
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.inner, self.after = nn.Dropout(job.get("attention_dropout", 0.0)), nn.Dropout(job.get("hidden_dropout", 0.0))
        if self.eager:
            self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        k = k.view(b, t, self.heads, width // self.heads).transpose(1, 2)
        q = q.view(b, t, self.heads, width // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, width // self.heads).transpose(1, 2)
        if self.eager:
            a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            a = a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
            a = F.softmax(a, dim=-1)
            a = self.inner(a)
            y = a @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.inner.p)
        return self.after(self.proj(y.transpose(1, 2).contiguous().view(b, t, width)))


class Block(nn.Module):
    def __init__(self, job):
        super().__init__()
        width, inner = job["hidden_size"], job["ffn_hidden_size"]
        self.norm1, self.attention, self.norm2 = Norm(width), Attention(job), Norm(width)
        self.up, self.down = nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)
        self.after = nn.Dropout(job.get("hidden_dropout", 0.0))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.after(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    def __init__(self, job):
        super().__init__()
        width, rows = job["hidden_size"], job["vocab_size"]
        self.tokens, self.positions = nn.Embedding(rows, width), nn.Embedding(job["max_position_embeddings"], width)
        self.blocks = nn.ModuleList(Block(job) for _ in range(job["num_layers"]))
        self.norm, self.head = Norm(width), nn.Linear(width, rows, bias=False)
        self.after = nn.Dropout(job.get("hidden_dropout", 0.0))
        self.tokens.weight = self.head.weight
        self.recompute = job.get("recompute_granularity") == "full"

    def forward(self, tokens, targets):
        x = self.after(self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device)))
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        logits = self.head(self.norm(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


class Both:
    """Muon for the matrices of layers, AdamW for the rest."""

    def __init__(self, model, kind):
        named = list(model.named_parameters())
        matrices = {name for name, p in named if p.ndim == 2 and min(p.shape) > 1 and not any(part in name for part in NOT_MUON)}
        self.each = [torch.optim.Muon([p for name, p in named if name in matrices]),
                     torch.optim.AdamW([p for name, p in named if name not in matrices], **kind)]

    def step(self):
        for optimizer in self.each:
            optimizer.step()

    def zero_grad(self, set_to_none=True):
        for optimizer in self.each:
            optimizer.zero_grad(set_to_none)


NOT_MUON = "embed_tokens", "lm_head", "tokens", "positions", "head"


def optimizer_of(job, model):
    kind = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[job.get("optimizer_implementation", "fused")]
    name, parameters = job["optimizer"], model.parameters()
    if name == "sgd":
        momentum = {"momentum": job.get("momentum", 0.0), "nesterov": job.get("nesterov", False)}
        return torch.optim.SGD(parameters, lr=0.1, **momentum, **kind)
    if name == "rmsprop":
        return torch.optim.RMSprop(parameters, momentum=job.get("momentum", 0.0), **kind)
    if name == "adagrad":
        return torch.optim.Adagrad(parameters, **kind)
    if name == "adafactor":
        return torch.optim.Adafactor(parameters, **kind)
    if name == "transformers-adafactor":
        from transformers.optimization import Adafactor
        return Adafactor(parameters)
    if name in ("lion", "adam8bit"):
        import bitsandbytes
        return {"lion": bitsandbytes.optim.Lion, "adam8bit": bitsandbytes.optim.AdamW8bit}[name](parameters)
    return Both(model, kind) if name == "muon" else torch.optim.AdamW(parameters, **kind)


def autocast_of(job):
    kind = {"fp16-autocast": torch.float16, "bf16-autocast": torch.bfloat16}.get(job["precision"])
    return torch.autocast("cuda", dtype=kind or torch.bfloat16, enabled=kind is not None)


def tokens_of(job):
    return torch.randint(0, job["vocab_size"], (job["micro_batch_size"], job["seq_length"])).cuda()


def distributed(job, model, blocks):
    """The model under DistributedDataParallel or fully_shard, if the job declares one."""
    if job.get("data_parallel_size", 1) == 1:
        return model
    if not job.get("fsdp"):
        return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=job.get("ddp_bucket_cap_mb"),
                                                   gradient_as_bucket_view=job.get("gradient_as_bucket_view", False))
    if job.get("fsdp_version") == 1:
        return flat_sharded(job, model, type(blocks[0]))
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = {}
    if job["precision"] == "bf16-mixed":
        policy["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in blocks:
        fully_shard(block, reshard_after_forward=job.get("reshard_after_forward", True), **policy)
    return fully_shard(model, **policy)


def flat_sharded(job, model, block):
    """FullyShardedDataParallel, with one unit for each block or one for all."""
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    mixed = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if job["precision"] == "bf16-mixed" else None
    strategy = ShardingStrategy.FULL_SHARD if job.get("reshard_after_forward", True) else ShardingStrategy.SHARD_GRAD_OP
    units = None if job.get("fsdp_units") == "model" else ModuleWrapPolicy({block})
    return FullyShardedDataParallel(model, auto_wrap_policy=units, sharding_strategy=strategy, mixed_precision=mixed, use_orig_params=True,
                                    device_id=torch.cuda.current_device())


def clip(job, model):
    if job.get("fsdp_version") == 1:
        model.clip_grad_norm_(job["clip_grad"])
    else:
        nn.utils.clip_grad_norm_(model.parameters(), job["clip_grad"])


class Feed(nn.Module):
    """x + down(gelu(up(norm(x))))"""

    def __init__(self, job):
        super().__init__()
        width, inner = job["hidden_size"], job["ffn_hidden_size"]
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def feed_forward(job):
    with torch.device("cuda"):
        model = nn.Sequential(*[Feed(job) for _ in range(job["num_layers"])])
    model = distributed(job, model, model)
    optimizer = optimizer_of(job, model)
    torch.cuda.reset_peak_memory_stats()
    kind = torch.bfloat16 if job["precision"] == "bf16-mixed" else torch.float32
    for _ in range(STEPS):
        for _ in range(job.get("num_microbatches", 1)):
            x = torch.randn(job["micro_batch_size"] * job["seq_length"], job["hidden_size"], device="cuda", dtype=kind)
            loss = model(x).float().sum()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    write(x, loss)


def zero_of(job):
    """DeepSpeed's configuration."""
    zero = {"stage": job["zero_stage"], "contiguous_gradients": True}
    zero.update({key: job[key] for key in ("overlap_comm", "reduce_bucket_size", "allgather_bucket_size", "sub_group_size",
                                           "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold", "stage3_max_live_parameters",
                                           "stage3_max_reuse_distance") if key in job})
    zero.update({key: {"device": job[key], "pin_memory": True} for key in ("offload_optimizer", "offload_param") if key in job})
    return {"train_micro_batch_size_per_gpu": job["micro_batch_size"], "gradient_accumulation_steps": 1, "zero_optimization": zero,
            "zero_allow_untested_optimizer": True, "bf16": {"enabled": job["precision"] == "bf16-mixed"}, "gradient_clipping": 1.0}


def deepspeed(job):
    """nanoGPT's model, transformers', or feed-forward blocks, under ZeRO."""
    import contextlib
    import deepspeed as library
    library.init_distributed("nccl")
    kind = torch.bfloat16 if job["precision"] == "bf16-mixed" else torch.float32
    gpt, llama = job["arch"] == "gpt" and "num_attention_heads" in job, "num_query_groups" in job
    sharded = library.zero.Init(config_dict_or_path=zero_of(job), dtype=kind) if job.get("zero_init") else contextlib.nullcontext()
    with sharded:
        model = GPT(job) if gpt else transformers_model(job, "cpu") if llama else nn.Sequential(*[Feed(job) for _ in range(job["num_layers"])])
    kinds = {"offload_optimizer": library.ops.adam.DeepSpeedCPUAdam} if "offload_optimizer" in job else {}
    optimizer = kinds["offload_optimizer"](model.parameters()) if kinds else optimizer_of(job, model)
    engine = library.initialize(model=model, optimizer=optimizer, config=zero_of(job))[0]
    for _ in range(STEPS):
        if gpt:
            tokens, targets = tokens_of(job), tokens_of(job)
            logits, loss = engine(tokens, targets)
        elif llama:
            tokens = tokens_of(job)
            logits = engine(input_ids=tokens, labels=tokens)
            loss = logits.loss
        else:
            logits = torch.randn(job["micro_batch_size"] * job["seq_length"], job["hidden_size"], device="cuda", dtype=kind)
            loss = engine(logits).float().sum()
        engine.backward(loss)
        engine.step()
    write(logits, loss)


def gpt(job):
    """The loop of nanoGPT's train.py."""
    with torch.device("cuda"):
        model = GPT(job)
    if job["precision"] == "bf16":
        model = model.bfloat16()
    model = distributed(job, model, model.blocks)
    optimizer = optimizer_of(job, model)
    scaler = torch.amp.GradScaler("cuda", enabled=job.get("grad_scaler", False))
    torch.cuda.reset_peak_memory_stats()
    count = job.get("num_microbatches", 1)
    for _ in range(STEPS):
        for _ in range(count):
            tokens, targets = tokens_of(job), tokens_of(job)
            with autocast_of(job):
                logits, loss = model(tokens, targets)
                loss = loss / count if count > 1 else loss
            scaler.scale(loss).backward()
        if job.get("clip_grad"):
            scaler.unscale_(optimizer)
            clip(job, model)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(job.get("zero_grad_set_to_none", True))
    write(logits, loss)


def transformers_model(job, device="cuda"):
    import transformers
    name = {"llama": "Llama", "qwen2": "Qwen2", "mixtral": "Mixtral", "qwen2_moe": "Qwen2Moe"}[job.get("model_type", "llama")]
    more = {"attention_dropout": job.get("attention_dropout", 0.0)}
    if "num_experts" in job:
        more.update({"num_experts" if name == "Qwen2Moe" else "num_local_experts": job["num_experts"],
                     "num_experts_per_tok": job["moe_router_topk"], "output_router_logits": job.get("output_router_logits", False),
                     "experts_implementation": job.get("experts_implementation")})
    if name == "Qwen2Moe":
        more.update(moe_intermediate_size=job["moe_ffn_hidden_size"],
                    shared_expert_intermediate_size=job["moe_shared_expert_intermediate_size"])
    config = getattr(transformers, name + "Config")(
        hidden_size=job["hidden_size"], num_hidden_layers=job["num_layers"], num_attention_heads=job["num_attention_heads"],
        num_key_value_heads=job["num_query_groups"], intermediate_size=job["ffn_hidden_size"], vocab_size=job["vocab_size"],
        max_position_embeddings=max(4096, job["seq_length"]), attn_implementation=job["attention"], use_cache=False,
        tie_word_embeddings=not job["untie_embeddings_and_output_weights"], dtype=torch.float32, **more)
    with torch.device(device):
        model = getattr(transformers, name + "ForCausalLM")(config)
    if job["precision"] == "bf16":
        model = model.to(torch.bfloat16)
    if job.get("recompute_granularity") == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.train()


def packed_places(job):
    """Positions of two sequences in each row."""
    places = torch.arange(job["seq_length"], device="cuda") % -(-job["seq_length"] // 2)
    return {"position_ids": places.unsqueeze(0)}


def transformers(job):
    model = transformers_model(job)
    model = distributed(job, model, model.model.layers)
    optimizer = optimizer_of(job, model)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    count = job.get("num_microbatches", 1)
    places = packed_places(job) if job.get("packed_sequences") else {}
    for _ in range(STEPS):
        for _ in range(count):
            tokens = tokens_of(job)
            with autocast_of(job):
                output = model(input_ids=tokens, labels=tokens, **places)
                loss = output.loss
            (loss / count if count > 1 else loss).backward()
        if job.get("clip_grad"):
            clip(job, model)
        optimizer.step()
        optimizer.zero_grad(job.get("zero_grad_set_to_none", True))
    write(output, loss)


def write(*kept, peaks=()):
    """`kept` is the value to which the loop's variables still refer; `peaks` are those before the first step and of each step, if PyTorch's were reset."""
    found = {"peak_allocated_bytes": max([torch.cuda.max_memory_allocated(), *peaks]), "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
             "steady_bytes": torch.cuda.memory_allocated()}
    if peaks:
        found["step_peaks"] = peaks
    with open("%s.%s" % (sys.argv[2], os.environ.get("RANK", os.environ.get("JOB_NUMBER", 0))), "w") as f:
        json.dump(found, f)
    del kept


def run(job):
    if job.get("world_size", 1) > 1 and job["framework"] != "megatron-core":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl")
    if job["framework"] == "megatron-core":
        from declared_megatron import megatron
        megatron(job, write)
    else:
        {"nanogpt": gpt, "transformers": transformers, "torch": feed_forward, "deepspeed": deepspeed}[job["framework"]](job)
    os._exit(0)


def run_each(jobs):
    import transformers.models.llama.modeling_llama  # noqa: F401: once for all children
    for i, job in enumerate(jobs):
        if not os.fork():
            os.environ["JOB_NUMBER"] = str(i)
            if "MEMTRACE_DIR" in os.environ:
                os.environ["MEMTRACE_DIR"] += ".%d" % i
            run(job)
        os.wait()


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        declared = json.load(f)
    (run_each if isinstance(declared, list) else run)(declared)
    os._exit(0)
