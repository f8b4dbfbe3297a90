"""Adapts a frozen vision transformer to tumours in stained slides with learnt prompts (VPT), sharded over the GPUs with FSDP2."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard

RESHARD = "--fixed" in sys.argv


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class Segmenter(nn.Module):
    def __init__(self, dim=768, layers=12, heads=12, prompts=16, patch=16, size=224):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.position = nn.Parameter(torch.zeros(1, (size // patch) ** 2, dim))
        self.prompts = nn.Parameter(torch.zeros(1, prompts, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, patch * patch)

    def forward(self, x):
        side = x.shape[-1] // 16
        x = self.patch(x).flatten(2).transpose(1, 2) + self.position
        x = torch.cat([self.prompts.expand(len(x), -1, -1), x], 1)
        for block in self.blocks:
            x = block(x)
        x = self.head(self.norm(x[:, self.prompts.shape[1]:])).transpose(1, 2).unflatten(2, (side, side))
        return F.pixel_shuffle(x, 16).squeeze(1)


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    with torch.device("cuda"):
        model = Segmenter()
    model.patch.requires_grad_(False)
    model.position.requires_grad = False
    for block in model.blocks:
        block.requires_grad_(False)
        fully_shard(block, reshard_after_forward=RESHARD)
    fully_shard(model, reshard_after_forward=RESHARD)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for step in range(4):
        slides = torch.zeros(2, 3, 224, 224, device="cuda")
        masks = torch.zeros(2, 224, 224, device="cuda")
        loss = F.binary_cross_entropy_with_logits(model(slides), masks)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print("step", step, "loss", loss.item())


main()
