"""A deep and narrow transformer; the batch is as large as the paper's.

https://github.com/gke-labs/open-rl/pull/99
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

recompute = "--fixed" in sys.argv


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.w1, self.w2, self.w3 = nn.Linear(d, 3 * d), nn.Linear(d, 3 * d), nn.Linear(3 * d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))
        h = self.norm2(x)
        return x + self.w3(F.silu(self.w1(h)) * self.w2(h))


class Model(nn.Module):
    def __init__(self, depth=32, d=384):
        super().__init__()
        self.emb = nn.Embedding(4096, d)
        self.blocks = nn.ModuleList(Block(d, 6) for _ in range(depth))
        self.head = nn.Linear(d, 4096)

    def forward(self, ids):
        x = self.emb(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if recompute else block(x)
        return self.head(x)


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    ids = torch.randint(0, 4096, (16, 512), device="cuda")
    loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
