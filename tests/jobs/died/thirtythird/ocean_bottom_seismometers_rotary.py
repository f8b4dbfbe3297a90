"""Picks P and S arrivals in ocean-bottom seismograms: a transformer with rotary positions over strides of 0.05 s, records of two minutes."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class RotaryAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, cos, sin):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if "--fixed" in sys.argv:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
        else:
            att = (q @ k.transpose(-2, -1)) / math.sqrt(self.head_dim)
            att = F.dropout(att.softmax(-1), 0.1)
            y = att @ v
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2, self.att = nn.LayerNorm(dim), nn.LayerNorm(dim), RotaryAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, cos, sin):
        x = x + self.att(self.n1(x), cos, sin)
        return x + self.mlp(self.n2(x))


class Picker(nn.Module):
    def __init__(self, dim=192, heads=6, depth=4, stride=5):
        super().__init__()
        self.embed = nn.Conv1d(4, dim, stride, stride=stride)
        self.blocks, self.head = nn.ModuleList(Block(dim, heads) for _ in range(depth)), nn.Linear(dim, 3)
        self.freq = 10000.0 ** (-torch.arange(0, dim // heads // 2) / (dim // heads // 2))

    def forward(self, waves):
        x = self.embed(waves).transpose(1, 2)
        angle = torch.outer(torch.arange(x.shape[1], dtype=torch.float), self.freq).to(x.device)
        cos, sin = angle.cos(), angle.sin()
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(x)


picker = Picker().cuda()
opt = torch.optim.AdamW(picker.parameters(), lr=3e-4)
for i in range(5):
    waves, phase = torch.randn(3, 4, 12000), torch.randint(0, 3, (3, 2400))
    loss = F.cross_entropy(picker(waves.cuda()).flatten(0, 1), phase.cuda().flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, loss.item())
