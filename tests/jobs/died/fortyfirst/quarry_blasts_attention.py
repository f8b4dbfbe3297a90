"""Tells quarry blasts from earthquakes in seismograms of three components, with a transformer written from the paper."""
import math
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv


class MultiHeadAttention(nn.Module):
    """Scaled dot products, as in the equation."""

    def __init__(self, d_model, h, p=0.1):
        super().__init__()
        self.h, self.d_k, self.p = h, d_model // h, p
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(p)

    def heads(self, x):
        return x.view(x.size(0), -1, self.h, self.d_k).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.heads(self.w_q(x)), self.heads(self.w_k(x)), self.heads(self.w_v(x))
        if FIXED:
            out = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0)
        else:
            scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
            out = torch.matmul(self.dropout(torch.softmax(scores, dim=-1)), v)
        return self.w_o(out.transpose(1, 2).contiguous().view(x.size(0), -1, self.h * self.d_k))


class EncoderLayer(nn.Module):
    """Attention and feed-forward, each with a norm after it."""

    def __init__(self, d_model, h):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, h)
        self.feed = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.feed(x))


class SeismogramClassifier(nn.Module):
    """60 seconds at 100 samples a second, every third sample a token."""

    def __init__(self, d_model=128, h=8, depth=4, length=6000):
        super().__init__()
        self.embed = nn.Conv1d(3, d_model, 9, stride=3, padding=4)
        position = torch.arange(length // 3)[:, None]
        rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        self.register_buffer("positions", torch.stack([torch.sin(position * rate), torch.cos(position * rate)], -1).flatten(1))
        self.layers = nn.ModuleList(EncoderLayer(d_model, h) for _ in range(depth))
        self.classify = nn.Linear(d_model, 2)

    def forward(self, x):
        x = self.embed(x).transpose(1, 2) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.classify(x.mean(1))


def events(n, generator):
    return torch.randn(n, 3, 6000, generator=generator), torch.randint(0, 2, (n,), generator=generator)


def train():
    torch.manual_seed(3)
    model = SeismogramClassifier().cuda().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    generator = torch.Generator().manual_seed(300)
    for step in range(6):
        waves, kinds = events(8, generator)
        loss = nn.functional.cross_entropy(model(waves.cuda()), kinds.cuda(), label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, loss.item())


train()
