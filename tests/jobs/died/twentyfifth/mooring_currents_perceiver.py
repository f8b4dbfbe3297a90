"""Fills gaps in current-meter moorings (ADCP). 64 depth cells x 3 days of readings are tokens; masked readings are predicted."""
import sys
from functools import partial

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv


class SelfBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_a, self.ln_b = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        if FIXED:
            self.attn.forward = partial(self.attn.forward, need_weights=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x):
        y = self.ln_a(x)
        x = x + self.attn(y, y, y)[0]
        return x + self.mlp(self.ln_b(x))


class GapFiller(nn.Module):
    def __init__(self, dim=128, heads=8, depth=4, tokens=2304):
        super().__init__()
        self.embed = nn.Linear(3, dim)
        self.missing = nn.Parameter(torch.zeros(dim))
        self.where = nn.Parameter(torch.randn(tokens, dim) * 0.02)
        self.blocks = nn.ModuleList(SelfBlock(dim, heads) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2))

    def forward(self, readings, mask):
        x = self.embed(readings)
        x = torch.where(mask[..., None], self.missing, x) + self.where
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batches(n, size=4, cells=64, hours=36):
    g = torch.Generator().manual_seed(2024)
    tide = torch.sin(torch.arange(hours) / 12.42 * 6.2832)[None, :, None].expand(size, hours, cells)
    for _ in range(n):
        u = tide + 0.2 * torch.randn(size, hours, cells, generator=g)
        v = 0.4 * tide + 0.2 * torch.randn(size, hours, cells, generator=g)
        quality = torch.rand(size, hours, cells, generator=g)
        yield torch.stack([u, v, quality], -1).flatten(1, 2), torch.rand(size, hours * cells, generator=g) < 0.3


def main():
    model = GapFiller().to("cuda")
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step, (readings, mask) in enumerate(batches(8)):
        readings, mask = readings.to("cuda"), mask.to("cuda")
        out = model(readings, mask)
        wrong = (out - readings[..., :2]).square().sum(-1) * mask
        loss = wrong.sum() / mask.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


main()
