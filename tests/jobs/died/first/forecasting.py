"""A transformer over long series, with attention written out.

https://github.com/jonatasgrosman/huggingsound/issues/13
"""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FLASH = "--fixed" in sys.argv


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h, self.q, self.k, self.v, self.o = heads, nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.h, d // self.h).transpose(1, 2) for f in (self.q, self.k, self.v))
        if FLASH:
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            energy = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(d // self.h)
            weights = energy.exp()
            weights = weights / weights.sum(-1, keepdim=True)
            out = torch.einsum("bhij,bhjd->bhid", weights, v)
        return self.o(out.transpose(1, 2).reshape(b, n, d))


class Forecaster(nn.Module):
    def __init__(self, channels=16, d=384, layers=4):
        super().__init__()
        self.proj, self.out = nn.Linear(channels, d), nn.Linear(d, channels)
        self.att = nn.ModuleList(Attention(d, 6) for _ in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(layers))

    def forward(self, x):
        x = self.proj(x)
        for att, ff in zip(self.att, self.ff):
            x = x + att(x)
            x = x + ff(x)
        return self.out(x)


model = Forecaster().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(5):
    series = torch.randn(4, 2880, 16, device="cuda")
    loss = F.mse_loss(model(series[:, :-24]), series[:, 24:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
