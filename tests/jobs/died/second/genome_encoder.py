"""Masked nucleotides in windows of 4,096 bases; the attention is written out, as in the paper.

After https://github.com/CyberZHG/keras-multi-head/issues/1 and https://github.com/datamllab/LongLM/issues/10
"""
import math
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, 1 / math.sqrt(dim // heads)
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.drop = nn.Dropout(0.1)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        if FIXED:
            y = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
        else:
            weights = torch.exp((q @ k.transpose(-2, -1)) * self.scale)
            weights = weights / weights.sum(-1, keepdim=True)
            y = self.drop(weights) @ v
        return self.o(y.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention, self.n1, self.n2 = SelfAttention(dim, heads), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.ff(self.n2(x))


class GenomeEncoder(nn.Module):
    def __init__(self, dim=512, heads=8, layers=6):
        super().__init__()
        self.bases, self.pos = nn.Embedding(7, dim), nn.Embedding(4096, dim)
        self.layers = nn.ModuleList([EncoderLayer(dim, heads) for _ in range(layers)])
        self.out = nn.Linear(dim, 7)

    def forward(self, ids):
        x = self.bases(ids) + self.pos.weight[:ids.size(1)]
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


model = GenomeEncoder().cuda()
opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(5):
    window = torch.randint(7, (1, 4096)).cuda()
    hidden = torch.where(torch.rand_like(window, dtype=torch.float) < 0.15, 6, window)
    loss = nn.functional.cross_entropy(model(hidden).view(-1, 7), window.view(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
