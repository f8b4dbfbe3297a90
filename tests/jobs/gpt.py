"""GPT-2 as nanoGPT trains it, on one GPU or with PyTorch's own parallelism under torchrun.

    gpt.py [--parallel none|ddp|fsdp1|fsdp2|tp] [--compile] [--graphs] [--scaler] [--offload] ...
"""
import time

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

from common import OPTIMIZERS, WORLD, LOCAL_RANK, Truth, autocast, batch, finish, options, start, tensors_of
from train_gpt2 import GPT, Block


class Recomputed(Block):
    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=False)


class RecomputedAttention(Block):
    def forward(self, x):
        x = x + checkpoint(lambda y: self.attn(self.ln_1(y)), x, use_reentrant=False)
        return x + self.c_proj(nn.functional.gelu(self.c_fc(self.ln_2(x))))


def arguments():
    p = options(layers=12, hidden=768, heads=12, vocab=50304, seq=1024, optimizer="adamw_fused")
    p.add_argument("--parallel", default="ddp" if WORLD > 1 else "none", choices=("none", "ddp", "fsdp1", "fsdp2", "tp"))
    p.add_argument("--bucket", type=int, default=25, help="DDP: megabytes a bucket")
    p.add_argument("--bucket-view", action="store_true", help="DDP: gradient_as_bucket_view")
    p.add_argument("--no-reshard", action="store_true", help="FSDP: keep the gathered parameters until the backward pass")
    p.add_argument("--offload", action="store_true", help="FSDP: shards in host memory")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--graphs", action="store_true", help="capture the forward and backward passes in a CUDA graph")
    p.add_argument("--scaler", action="store_true", help="AMP's GradScaler")
    p.add_argument("--pause", type=float, default=0.0, help="seconds between two steps, so that NCCL's watchdog frees what the first one's collectives used")
    o = p.parse_args()
    if o.parallel == "tp":
        o.optimizer = "adamw_loop"  # the others refuse DTensors among plain tensors
    return o


def fsdp1(model, o):
    from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    precision = MixedPrecision(torch.bfloat16, torch.float32) if o.dtype == "bf16" else None
    return FullyShardedDataParallel(
        model, auto_wrap_policy=ModuleWrapPolicy({type(model.h[0])}), mixed_precision=precision, device_id=LOCAL_RANK,
        use_orig_params=True, cpu_offload=CPUOffload(o.offload),
        sharding_strategy=ShardingStrategy.SHARD_GRAD_OP if o.no_reshard else ShardingStrategy.FULL_SHARD)


def fsdp2(model, o):
    try:
        from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
    except ImportError:  # PyTorch 2.5
        from torch.distributed._composable.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
    keys = {"reshard_after_forward": not o.no_reshard, "offload_policy": CPUOffloadPolicy() if o.offload else OffloadPolicy()}
    if o.dtype == "bf16":
        keys["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.h:
        fully_shard(block, **keys)
    return fully_shard(model, **keys)


def tensor_parallel(model, o):
    """The MLPs by DTensor: column-wise, then row-wise."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    try:
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cuda", (WORLD,))
    except ImportError:  # PyTorch 2.0 and 2.1
        from torch.distributed._tensor import DeviceMesh
        mesh = DeviceMesh("cuda", list(range(WORLD)))
    for block in model.h:
        parallelize_module(block, mesh, {"c_fc": ColwiseParallel(), "c_proj": RowwiseParallel()})
    return model


def wrap(model, o):
    if o.parallel == "ddp":
        return nn.parallel.DistributedDataParallel(model, device_ids=[LOCAL_RANK], bucket_cap_mb=o.bucket,
                                                   gradient_as_bucket_view=o.bucket_view)
    return {"none": lambda m, o: m, "fsdp1": fsdp1, "fsdp2": fsdp2, "tp": tensor_parallel}[o.parallel](model, o)


def build(o):
    model = GPT(o.layers, o.hidden, o.heads, o.vocab, o.seq, o.attention == "sdpa")
    if o.recompute != "none":
        for block in model.h:
            block.__class__ = Recomputed if o.recompute == "full" else RecomputedAttention
    if not o.offload:
        model = model.cuda()
    if o.dtype == "bf16_pure":
        model = model.bfloat16()
    model = wrap(model, o)
    return torch.compile(model) if o.compile else model


def graphed(model, o):
    """One captured micro batch, as CUDA graphs are used by hand: warm up on a side stream, then capture into a private pool."""
    tokens, targets = batch(o)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())

    def run():
        with autocast(o):
            loss = model(tokens, targets)[1]
        loss.backward()
        return loss

    with torch.cuda.stream(side):
        for _ in range(2):
            model.zero_grad(set_to_none=True)
            run()
    torch.cuda.current_stream().wait_stream(side)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def save(model, optimizer, o):
    if o.parallel in ("none", "ddp"):
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, o.save + "/checkpoint.pt")
    else:
        import torch.distributed.checkpoint as checkpoints
        from torch.distributed.checkpoint.state_dict import get_state_dict
        state, optimizer_state = get_state_dict(model, optimizer)
        checkpoints.save({"model": state, "optimizer": optimizer_state}, checkpoint_id=o.save)


def main():
    o = arguments()
    start(o)
    model = build(o)
    parameters = list(model.parameters())
    optimizer = OPTIMIZERS[o.optimizer](parameters)
    scaler = torch.cuda.amp.GradScaler(enabled=o.scaler)
    graph = graphed(model, o) if o.graphs else None
    truth = Truth(o.parallel, tensors_of(model, optimizer), elements=sum(p.numel() for p in parameters))
    for _ in range(o.steps):
        if o.pause:
            torch.cuda.synchronize()
            time.sleep(o.pause)
        truth.before_step()
        for _ in range(o.accumulate):
            if graph:
                graph.replay()
                continue
            tokens, targets = batch(o)
            with autocast(o):
                loss = model(tokens, targets)[1]
            scaler.scale(loss / o.accumulate).backward()
        if o.clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(parameters, o.clip)
        scaler.step(optimizer)
        scaler.update()
        truth.after_optimizer()
        optimizer.zero_grad(set_to_none=not graph)
        truth.after_step()
    if o.save:
        save(model, optimizer, o)
    truth.print()
    finish()
    return model, optimizer


if __name__ == "__main__":
    kept = main()
