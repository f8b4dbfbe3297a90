"""Encoder for three-component seismograms (P and S onsets, polarity) on two GPUs with FullyShardedDataParallel."""
import functools
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy, transformer_auto_wrap_policy

D, DEPTH, PATCH = 1024, 16, 30


class SeismicLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.ff = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 16, D // 16).permute(2, 0, 3, 1, 4)
        x = x + self.proj(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, D))
        return x + self.ff(self.n2(x))


class SeismicEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv1d(3, D, PATCH, PATCH)
        self.layers = nn.ModuleList(SeismicLayer() for _ in range(DEPTH))
        self.onset = nn.Linear(D, 3 * PATCH)

    def forward(self, trace):
        x = self.patch(trace).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.onset(x).view(len(trace), -1, 3)


def wrapped(model):
    if "--fixed" in sys.argv:
        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={SeismicLayer})
    else:
        policy = functools.partial(size_based_auto_wrap_policy, min_num_params=100_000_000)
    return FSDP(model, auto_wrap_policy=policy, sharding_strategy=ShardingStrategy.FULL_SHARD, device_id=torch.cuda.current_device(),
                use_orig_params=True)


def traces(n, batch=4, samples=3000):
    g = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(n):
        yield torch.randn(batch, 3, samples, generator=g), torch.randint(0, 3, (batch, samples), generator=g)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    model = wrapped(SeismicEncoder())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, (trace, phase) in enumerate(traces(5)):
        loss = nn.functional.cross_entropy(model(trace.cuda()).transpose(1, 2), phase.cuda())
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print("step", step, "loss", loss.item(), flush=True)


main()
