"""Folk tunes with relative attention: scores, relative logits and softmax by hand, for 2048 events. The mended run uses windows of 512 events."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

LENGTH, WINDOW = 2048, 512 if "--fixed" in sys.argv else 2048


class RelativeAttention(nn.Module):
    def __init__(self, dim, heads, longest):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.rel = nn.Parameter(torch.randn(longest, dim // heads) * 0.02)
        self.register_buffer("mask", torch.ones(longest, longest, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2)
        rel = F.pad(q @ self.rel[-t:].T, (1, 0)).view(b, self.heads, t + 1, t)[:, :, 1:]
        score = (score + rel) * self.scale
        weight = score.masked_fill(self.mask[:t, :t], float("-inf")).softmax(-1)
        return self.proj((weight @ v).transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim=384, heads=6):
        super().__init__()
        self.n1, self.n2, self.attn = nn.LayerNorm(dim), nn.LayerNorm(dim), RelativeAttention(dim, heads, WINDOW)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class Tunes(nn.Module):
    def __init__(self, events=390, dim=384, layers=6):
        super().__init__()
        self.emb = nn.Embedding(events, dim)
        self.layers = nn.Sequential(*[Layer(dim) for _ in range(layers)])
        self.out = nn.Linear(dim, events)

    def forward(self, x):
        return self.out(self.layers(self.emb(x)))


model = Tunes().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98))
for step in range(6):
    tune = torch.randint(0, 390, (3, LENGTH + 1))
    x, y = tune[:, :-1].reshape(-1, WINDOW).cuda(), tune[:, 1:].reshape(-1, WINDOW).cuda()
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item())
