"""Nowcasts foehn gusts from 36 stations; we watch the entropy of attention, which collapsed in the first runs."""
import math
import sys

import torch
import torch.nn as nn

fixed = "--fixed" in sys.argv


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.entropies = []

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        w = (q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)).softmax(-1)
        if self.training:
            p = w.detach() if fixed else w
            self.entropies.append(-(p * (p + 1e-9).log()).sum(-1).mean())
        return self.proj((w @ v).transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention, self.norm1, self.norm2 = SelfAttention(dim, heads), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.ff(self.norm2(x))


class Nowcaster(nn.Module):
    def __init__(self, stations=36, dim=192, depth=4, heads=6):
        super().__init__()
        self.embed = nn.Linear(stations * 4, dim)
        self.time = nn.Parameter(torch.zeros(1, 288, dim))
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.gust = nn.Linear(dim, stations * 12)

    def forward(self, x):
        x = self.embed(x) + self.time
        for layer in self.layers:
            x = layer(x)
        return self.gust(x[:, -1])

    def entropy_report(self):
        report = [torch.stack(l.attention.entropies).mean().item() for l in self.layers]
        for l in self.layers:
            l.attention.entropies.clear()
        return report


def quantile_loss(pred, true, q=0.9):
    e = true - pred
    return torch.max(q * e, (q - 1) * e).mean()


model = Nowcaster().cuda()
optimizer = torch.optim.RAdam(model.parameters(), lr=3e-4)
gen = torch.Generator().manual_seed(11)
for day in range(2):
    for hour in range(14):
        seen = torch.randn(16, 288, 36 * 4, generator=gen).cuda()
        gusts = torch.rand(16, 36 * 12, generator=gen).cuda()
        loss = quantile_loss(model(seen), gusts)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    print("day", day, "loss", loss.item(), "entropy", model.entropy_report())
