"""The loop that trains a model of memtrace_model.py for some steps: optimizer, sharding, engine, PyTorch's counters."""
import contextlib
import os

STEPS = 2


class Refused(Exception):
    """The declared job cannot be built here."""


def rows_of(job):
    """Sequences of a micro-batch."""
    return job.get("micro_batch_size", 1)


def optimizer_of(job, model):
    import torch
    parameters = [p for p in model.parameters() if p.requires_grad]
    kind = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}
    kind = kind.get(job.get("optimizer_implementation"), {"fused": True})
    name = job.get("optimizer", "adamw")
    if name in ("adam", "adamw"):
        return torch.optim.AdamW(parameters, lr=1e-4, **kind)
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-4, momentum=job.get("momentum", 0.0), nesterov=job.get("nesterov", False))
    if name in ("rmsprop", "adagrad", "adafactor"):
        return {"rmsprop": torch.optim.RMSprop, "adagrad": torch.optim.Adagrad, "adafactor": torch.optim.Adafactor}[name](parameters)
    if name == "transformers-adafactor":
        from transformers.optimization import Adafactor
        return Adafactor(parameters)
    if name in ("lion", "adam8bit"):
        import bitsandbytes
        return {"lion": bitsandbytes.optim.Lion, "adam8bit": bitsandbytes.optim.AdamW8bit}[name](parameters)
    raise Refused("optimizer is %s: not one that is run" % name)


def half_of(job):
    """The type of autocast; None: off."""
    import torch
    return {"bf16-mixed": torch.bfloat16, "bf16-autocast": torch.bfloat16, "fp16-mixed": torch.float16,
            "fp16-autocast": torch.float16}.get(job.get("precision", "bf16-mixed"))


def reduced_as(job, half):
    """The type in which FSDP reduces gradients."""
    import torch
    return torch.float32 if job.get("accumulate_allreduce_grads_in_fp32", True) else half


def distributed(job, model):
    """The model under DistributedDataParallel or FSDP, if the job has several ranks; and whether autocast remains its own."""
    import torch
    if job.get("data_parallel_size", 1) == 1:
        return model, True
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    torch.distributed.init_process_group("nccl")
    if job.get("zero_stage", 0) != 3:
        return torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=job.get("ddp_bucket_cap_mb"),
                                                         gradient_as_bucket_view=job.get("gradient_as_bucket_view", False)), True
    half = half_of(job) if "autocast" not in str(job.get("precision")) else None
    blocks = blocks_of(model, str(job.get("fsdp_units", "blocks")))
    return (flat_sharded if job.get("fsdp_version") == 1 else sharded)(job, model, blocks, half), not half


def sharded(job, model, blocks, half):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = {"mp_policy": MixedPrecisionPolicy(param_dtype=half, reduce_dtype=reduced_as(job, half))} if half else {}
    for block in blocks:
        fully_shard(block, reshard_after_forward=job.get("reshard_after_forward", True), **policy)
    return fully_shard(model, **policy)


def flat_sharded(job, model, blocks, half):
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    mixed = MixedPrecision(param_dtype=half, reduce_dtype=reduced_as(job, half)) if half else None
    strategy = ShardingStrategy.FULL_SHARD if job.get("reshard_after_forward", True) else ShardingStrategy.SHARD_GRAD_OP
    units = ModuleWrapPolicy({type(block) for block in blocks}) if blocks else None
    return FullyShardedDataParallel(model, auto_wrap_policy=units, sharding_strategy=strategy, mixed_precision=mixed, use_orig_params=True,
                                    device_id=torch.cuda.current_device())


def blocks_of(model, units):
    """The modules that are a unit each: "blocks", "model" (none), or those of the named classes."""
    if units in ("blocks", "model"):
        return layers_of(model) if units == "blocks" else []
    names = set(units.split(","))
    found = [m for m in model.modules() if type(m).__name__ in names]
    if not found:
        raise Refused("fsdp_units=%s: the model has no such class" % units)
    return found


def layers_of(model):
    """The layers that transformers keeps whole: those of its lists that it names, or of its longest list."""
    import torch
    names = set(getattr(model, "_no_split_modules", None) or [])
    lists = [list(m) for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m)]
    named = [block for blocks in lists for block in blocks if type(block).__name__ in names]
    return named or max(lists, key=len, default=[])


def clip(job, wrapped):
    import torch
    if job.get("fsdp_version") == 1 and hasattr(wrapped, "clip_grad_norm_"):
        wrapped.clip_grad_norm_(job["clip_grad"])
    else:
        torch.nn.utils.clip_grad_norm_(wrapped.parameters(), job["clip_grad"])


def loss_of(output):
    """The model's loss, or the mean of the first tensor that it returns."""
    import torch
    loss = getattr(output, "loss", None)
    if loss is not None:
        return loss
    values = output.to_tuple() if hasattr(output, "to_tuple") else output
    tensors = [t for t in flat(values) if torch.is_tensor(t) and t.requires_grad]
    if not tensors:
        raise Refused("the model returns nothing to train on")
    return tensors[0].float().mean()


def in_fp32(output):
    """The outputs as Accelerate's wrapper of the forward pass gives them."""
    from accelerate.utils import convert_to_fp32
    return convert_to_fp32(output)


def flat(values):
    for value in values if isinstance(values, (tuple, list)) else [values]:
        if isinstance(value, (tuple, list)):
            yield from flat(value)
        else:
            yield value


def engine_of(job, model):
    """DeepSpeed's engine."""
    import deepspeed
    if job.get("precision", "bf16-mixed").startswith("fp16"):
        raise Refused("fp16 under DeepSpeed is not run")
    deepspeed.init_distributed("nccl")
    zero = {"stage": job.get("zero_stage", 0)}
    zero.update({key: job[key] for key in ("overlap_comm", "reduce_bucket_size", "allgather_bucket_size", "sub_group_size",
                                           "contiguous_gradients", "round_robin_gradients", "stage3_prefetch_bucket_size", "stage3_max_live_parameters",
                                           "stage3_param_persistence_threshold", "stage3_max_reuse_distance") if key in job})
    options = {"train_micro_batch_size_per_gpu": rows_of(job), "zero_optimization": zero,
               "gradient_accumulation_steps": job.get("num_microbatches", 1), "zero_allow_untested_optimizer": True,
               "bf16": {"enabled": job.get("precision", "bf16-mixed") in ("bf16-mixed", "bf16")}}
    if job.get("clip_grad"):
        options["gradient_clipping"] = job["clip_grad"]
    return deepspeed.initialize(model=model, optimizer=optimizer_of(job, model), config=options)[0]


def train_with_engine(engine, job, make_batch):
    kept = None
    for _ in range(STEPS * job.get("num_microbatches", 1)):
        batch = make_batch()
        output = engine(**batch)
        loss = loss_of(output)
        kept = output if job.get("keep_logits") else None
        del output
        engine.backward(loss)
        engine.step()
    return counters(kept)


def counters(*_):
    """PyTorch's counters, while the arguments live."""
    import torch
    return {"steady_bytes": torch.cuda.memory_allocated(), "peak_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved()}


def train(wrapped, autocasts, job, make_batch):
    import torch
    optimizer = optimizer_of(job, wrapped)
    half = half_of(job) if autocasts else None
    scaler = torch.amp.GradScaler("cuda", enabled=job.get("grad_scaler", half == torch.float16))
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    count, kept = job.get("num_microbatches", 1), None
    for _ in range(STEPS):
        for _ in range(count):
            batch = make_batch()
            with torch.autocast("cuda", dtype=half) if half else contextlib.nullcontext():
                output = wrapped(**batch)
                loss = None if job.get("outputs_in_fp32") else loss_of(output)
            if job.get("outputs_in_fp32"):
                output = in_fp32(output)
                loss = loss_of(output)
            kept = output if job.get("keep_logits") else None
            del output
            scaler.scale(loss / count if count > 1 else loss).backward()
            loss = loss.detach()
        if job.get("clip_grad"):
            scaler.unscale_(optimizer)
            clip(job, wrapped)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(job.get("zero_grad_set_to_none", True))
    return counters(kept, optimizer)
