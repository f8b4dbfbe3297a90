"""Finds calls of whales in long hydrophone recordings: log-mel frames, a convolutional stem and a transformer, frame by frame."""
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, 1 / math.sqrt(dim // heads)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if FIXED:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            weights = (q @ k.transpose(-2, -1) * self.scale).softmax(-1)
            y = weights @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(dim), Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class CallFinder(nn.Module):
    def __init__(self, mels=64, dim=192, heads=6, layers=6, kinds=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(mels, dim, 5, 2, 2), nn.GELU(), nn.Conv1d(dim, dim, 5, 2, 2), nn.GELU())
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.head = nn.Linear(dim, kinds)

    def forward(self, mel):
        x = self.stem(mel).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def recordings(minutes, batch):
    """Frames of 20 ms, 64 mels, and a mark for each fourth frame."""
    frames = minutes * 60 * 50
    while True:
        yield torch.randn(batch, 64, frames), (torch.rand(batch, frames // 4, 5) > 0.97).float()


def main():
    model = CallFinder().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98))
    weight = torch.full((5,), 20.0, device="cuda")
    data = recordings(minutes=2, batch=3)
    for step in range(4):
        mel, marks = next(data)
        logits = model(mel.to("cuda"))
        loss = F.binary_cross_entropy_with_logits(logits, marks.to("cuda"), pos_weight=weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
