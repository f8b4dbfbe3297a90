"""A language model with linear attention, written after the paper's equations; the state of each position is a sum over the ones before.
"""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


@dataclass
class Sizes:
    words: int = 3000
    width: int = 256
    heads: int = 4
    layers: int = 4
    length: int = 512
    batch: int = 8


def causal_sums(q, k, v):
    """The state after each position is the running sum of the outer products of keys and values."""
    state = (k.unsqueeze(-1) * v.unsqueeze(-2)).cumsum(2)
    return torch.einsum("bhld,bhlde->bhle", q, state)


def causal_chunks(q, k, v, size=64):
    """The same by chunks: inside a chunk by scores, between chunks by the state."""
    b, h, length, d = q.shape
    state = q.new_zeros(b, h, d, d)
    mask = torch.ones(size, size, device=q.device).tril()
    outs = []
    for qc, kc, vc in zip(q.split(size, 2), k.split(size, 2), v.split(size, 2)):
        inside = (qc @ kc.transpose(-1, -2) * mask) @ vc
        outs.append(inside + qc @ state)
        state = state + kc.transpose(-1, -2) @ vc
    return torch.cat(outs, 2)


class LinearAttention(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads = s.heads
        self.qkv = nn.Linear(s.width, 3 * s.width, bias=False)
        self.out = nn.Linear(s.width, s.width, bias=False)

    def forward(self, x):
        b, length, width = x.shape
        q, k, v = self.qkv(x).view(b, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        y = causal_chunks(q, k, v) if FIXED else causal_sums(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, length, width))


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(s.width), nn.LayerNorm(s.width)
        self.attention = LinearAttention(s)
        self.mlp = nn.Sequential(nn.Linear(s.width, 4 * s.width), nn.GELU(), nn.Linear(4 * s.width, s.width))

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.mlp(self.n2(x))


class Decoder(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.words = nn.Embedding(s.words, s.width)
        self.blocks = nn.ModuleList(Block(s) for _ in range(s.layers))
        self.norm = nn.LayerNorm(s.width)
        self.head = nn.Linear(s.width, s.words, bias=False)

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


s = Sizes()
model = Decoder(s).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)
for step in range(4):
    ids = torch.randint(0, s.words, (s.batch, s.length + 1)).cuda()
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(step, loss.item())
