"""Masked-word pretraining on transcripts of radio broadcasts, sharded over two GPUs."""
import functools
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy, transformer_auto_wrap_policy

WORDS, DIM, LAYERS, HEADS, LENGTH = 10000, 768, 12, 12, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, DIM))
        return x + self.mlp(self.norm2(x))


class Broadcasts(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, DIM), nn.Embedding(LENGTH, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(DIM, WORDS)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def policy():
    if "--fixed" in sys.argv:
        return functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    return size_based_auto_wrap_policy


def masked(size, rank, step):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    ids = torch.randint(1, WORDS, (size, LENGTH), generator=generator)
    hidden = torch.rand(size, LENGTH, generator=generator) < 0.15
    return ids.masked_fill(hidden, 0), ids.masked_fill(~hidden, -100)


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    model = FSDP(Broadcasts(), auto_wrap_policy=policy(), device_id=torch.cuda.current_device(), use_orig_params=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    for step in range(5):
        ids, labels = masked(4, rank, step)
        loss = F.cross_entropy(model(ids.cuda()).flatten(0, 1), labels.cuda().flatten(), ignore_index=-100)
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print("step", step, "loss", loss.item())


main()
