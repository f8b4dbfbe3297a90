"""Low-rank adapters for a decoder on the logbooks of yachts, on two GPUs with fully_shard. The base is frozen."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard

FIXED = "--fixed" in sys.argv
VOCAB, DIM, HEADS, BLOCKS, RANK = 4000, 1152, 9, 12, 8


class Adapted(nn.Module):
    """A frozen projection with a trained update of low rank."""

    def __init__(self, into, out):
        super().__init__()
        self.base = nn.Linear(into, out, bias=False).requires_grad_(False)
        self.down, self.up = nn.Linear(into, RANK, bias=False), nn.Linear(RANK, out, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.qkv, self.proj = Adapted(DIM, 3 * DIM), Adapted(DIM, DIM)
        self.wide, self.narrow = Adapted(DIM, 4 * DIM), Adapted(4 * DIM, DIM)

    def forward(self, x):
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, HEADS, DIM // HEADS)).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.narrow(F.silu(self.wide(self.between(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM).requires_grad_(False)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.head = nn.Linear(DIM, VOCAB, bias=False).requires_grad_(False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with torch.device("meta"):
        model = Decoder()
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=FIXED)
    fully_shard(model, reshard_after_forward=FIXED)
    model.to_empty(device="cuda")
    with torch.no_grad():
        for p in model.parameters():
            nn.init.normal_(p, std=0.02)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    g = torch.Generator().manual_seed(dist.get_rank())
    for step in range(6):
        ids = torch.randint(0, VOCAB, (1, 257), generator=g).cuda()
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print("step", step, "loss", loss.item())


main()
