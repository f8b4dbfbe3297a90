"""Shared by the jobs: their options, optimizers, and the line of JSON that each rank prints at its end.

    {"rank": 0, "framework": "ddp", "max_memory_allocated": N, "max_memory_reserved": N, "memory_allocated": N, "elements": N,
     "tensors": {"parameters": N, "gradients": N, "optimizer_states": N, "buffers": N},     bytes of the tensors' storages
     "blocks":  {"parameters": N, ...},                                     bytes of the allocator's blocks that hold them
     "steady_bytes": [N, ...], "peak_bytes": [N, ...]}                          allocated before each step, highest so far
"""
import argparse
import bisect
import json
import os
import sys

import torch
import torch.nn as nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples"))

RANK, LOCAL_RANK, WORLD = (int(os.environ.get(name, default)) for name, default in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1)))
CATEGORIES = "parameters", "gradients", "optimizer_states", "buffers"
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-4),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=1e-4, fused=True),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, lr=1e-4, foreach=True),
    "adamw_loop": lambda p: torch.optim.AdamW(p, lr=1e-4, foreach=False),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adafactor": lambda p: torch.optim.Adafactor(p),
}


def options(**defaults):
    """The options that every job has, also under Megatron-core's names; a job adds its own and calls parse_args()."""
    p = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--layers", "--num-layers", type=int, default=4)
    p.add_argument("--hidden", "--hidden-size", type=int, default=512)
    p.add_argument("--heads", "--num-attention-heads", type=int, default=8)
    p.add_argument("--kv-heads", "--num-query-groups", type=int, help="grouped-query attention; default: as many as heads")
    p.add_argument("--ffn", "--ffn-hidden-size", type=int, help="default: four times the hidden size")
    p.add_argument("--vocab", "--padded-vocab-size", type=int, default=32000)
    p.add_argument("--seq", "--seq-length", type=int, default=512)
    p.add_argument("--micro-batch", "--micro-batch-size", type=int, default=2)
    p.add_argument("--accumulate", type=int, default=1, help="micro batches a step")
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--dtype", default="bf16", choices=("fp32", "fp16", "bf16", "bf16_pure"),
                   help="fp16, bf16: fp32 weights under autocast (or the framework's mixed precision); bf16_pure: 16-bit weights")
    p.add_argument("--optimizer", default="adamw", choices=sorted(OPTIMIZERS))
    p.add_argument("--attention", default="sdpa", choices=("sdpa", "eager"))
    p.add_argument("--recompute", default="none", choices=("none", "selective", "full"))
    p.add_argument("--clip", type=float, default=0.0, help="largest gradient norm; 0: no clipping")
    p.add_argument("--save", metavar="DIR", help="save a checkpoint at the end")
    p.set_defaults(**defaults)
    return p


def autocast(o):
    return torch.autocast("cuda", dtype=DTYPES[o.dtype[:4]] if o.dtype != "fp32" else torch.bfloat16, enabled=o.dtype in ("fp16", "bf16"))


def start(o):
    """The device of this rank, and the process group if there are several."""
    torch.cuda.set_device(LOCAL_RANK)
    torch.manual_seed(1)
    if WORLD > 1:
        torch.distributed.init_process_group("nccl")


def finish():
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def batch(o):
    return (torch.randint(0, o.vocab, (o.micro_batch, o.seq)).cuda() for _ in range(2))


class Block(nn.Module):
    """A residual MLP block whose sizes are easy to add up by hand."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


# ---- what PyTorch itself counts

def local(tensor):
    """The part of a distributed tensor on this rank."""
    return getattr(tensor, "_local_tensor", tensor)


def storages(tensors):
    """Storages on the GPU, each once: {address: bytes}."""
    found = {}
    for tensor in tensors:
        if torch.is_tensor(tensor):
            storage = local(tensor).untyped_storage()
            if storage.device.type == "cuda" and storage.nbytes():
                found[storage.data_ptr()] = storage.nbytes()
    return found


def blocks_of(addresses):
    """Bytes of the allocator's blocks that hold these addresses, each block once."""
    starts, sizes = [], []
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            starts.append(address)
            sizes.append(block["size"])
            address += block["size"]
    order = sorted(range(len(starts)), key=starts.__getitem__)
    ordered = [starts[i] for i in order]
    held = {order[bisect.bisect(ordered, a) - 1] for a in addresses} if ordered else set()
    return sum(sizes[i] for i in held)


def optimizer_tensors(optimizer):
    return [v for state in optimizer.state.values() for v in state.values() if torch.is_tensor(v)]


class Truth:
    """Collects a job's counters; `tensors` returns the tensors of each category, and is called before gradients are freed."""

    def __init__(self, framework, tensors, **more):
        self.framework, self.tensors, self.more = framework, tensors, more
        self.steady, self.peaks, self.sums, self.blocks = [], [], {}, {}
        torch.cuda.reset_peak_memory_stats()

    def before_step(self):
        self.steady.append(torch.cuda.memory_allocated())

    def after_optimizer(self):
        """Between the optimizer's step and zero_grad()."""
        native = torch.cuda.memory.get_allocator_backend() == "native"
        for category, tensors in self.tensors().items():
            found = storages(tensors)
            self.sums[category] = sum(found.values())
            self.blocks[category] = blocks_of(found) if native else None

    def after_step(self):
        self.peaks.append(torch.cuda.max_memory_allocated())

    def print(self):
        line = {"rank": RANK, "framework": self.framework, "max_memory_allocated": torch.cuda.max_memory_allocated(),
                "max_memory_reserved": torch.cuda.max_memory_reserved(), "memory_allocated": torch.cuda.memory_allocated(),
                "tensors": self.sums, "blocks": self.blocks, "steady_bytes": self.steady, "peak_bytes": self.peaks, **self.more}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def tensors_of(model, optimizer):
    """The categories of an ordinary model and optimizer, as a function for Truth."""
    def collect():
        parameters = list(model.parameters())
        return {"parameters": parameters, "gradients": [p.grad for p in parameters], "buffers": list(model.buffers()),
                "optimizer_states": optimizer_tensors(optimizer)}
    return collect
