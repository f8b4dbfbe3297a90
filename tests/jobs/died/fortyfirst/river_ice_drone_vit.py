"""Thickness of river ice from drone pictures: a plain ViT at high resolution, with activation checkpointing to save memory."""
import sys
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

FIXED = "--fixed" in sys.argv
again = partial(checkpoint, use_reentrant=False)


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ln2, self.fc1, self.fc2 = nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(self.ln1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class IceViT(nn.Module):
    """Thickness for each patch of 16 pixels."""

    def __init__(self, side=768, dim=384, depth=12, heads=6):
        super().__init__()
        self.patches = nn.Conv2d(4, dim, 16, 16)
        self.position = nn.Parameter(0.02 * torch.randn(1, (side // 16) ** 2, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm, self.thickness = nn.LayerNorm(dim), nn.Linear(dim, 1)

    def run_blocks(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, pictures):
        x = self.patches(pictures).flatten(2).transpose(1, 2) + self.position
        if FIXED:
            for block in self.blocks:
                x = again(block, x)
        else:
            x = again(self.run_blocks, x)
        return F.softplus(self.thickness(self.norm(x)))[..., 0]


def flights(steps):
    g = torch.Generator().manual_seed(1)
    for _ in range(steps):
        yield torch.rand(4, 4, 768, 768, generator=g), 2 * torch.rand(4, 48 * 48, generator=g)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = IceViT().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, (pictures, thickness) in enumerate(flights(5)):
        loss = F.smooth_l1_loss(model(pictures.cuda()), thickness.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())
