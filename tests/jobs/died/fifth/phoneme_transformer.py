"""Labels phonemes of long recordings frame by frame with a transformer encoder written from the paper."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FRAMES, BATCH, PHONEMES = 1200, 4, 61


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if "--fixed" in sys.argv:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            weights = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(d // self.heads)
            y = torch.einsum("bhqk,bhkd->bhqd", weights.softmax(-1), v)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = SelfAttention(dim, heads)
        self.feed = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Tagger(nn.Module):
    def __init__(self, dim=192, heads=6, layers=6):
        super().__init__()
        self.front = nn.Linear(80, dim)
        self.position = nn.Parameter(torch.zeros(FRAMES, dim))
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.head = nn.Linear(dim, PHONEMES)

    def forward(self, features):
        x = self.front(features) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def train(steps=8):
    model = Tagger().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, betas=(0.9, 0.98))
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 4))
    for step in range(steps):
        features = torch.zeros(BATCH, FRAMES, 80, device="cuda")
        phonemes = torch.zeros(BATCH, FRAMES, dtype=torch.long, device="cuda")
        loss = F.cross_entropy(model(features).flatten(0, 1), phonemes.flatten())
        loss.backward()
        optimizer.step()
        warmup.step()
        optimizer.zero_grad()
        print(step, loss.item())


train()
