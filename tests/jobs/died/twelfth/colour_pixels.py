"""Colours grey photos with a transformer over pixels of a 48 x 48 thumbnail: each pixel's two colour channels are predicted from all pixels."""
import math
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
SIDE, WIDTH, HEADS, LAYERS = 48, 192, 6, 6


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.proj, self.drop = nn.Linear(WIDTH, WIDTH), nn.Dropout(0.0 if FIXED else 0.1)

    def split(self, x):
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))
        if FIXED:
            y = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            y = self.drop(scores.softmax(-1)) @ v
        return self.proj(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norms = SelfAttention(), nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.feed(self.norms[1](x))


class Colouriser(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.places = nn.Linear(1, WIDTH), nn.Parameter(torch.zeros(SIDE * SIDE, WIDTH))
        self.layers, self.out = nn.Sequential(*[Layer() for _ in range(LAYERS)]), nn.Linear(WIDTH, 2)

    def forward(self, grey):
        return self.out(self.layers(self.inp(grey.flatten(1)[..., None]) + self.places)).tanh()


def photos(batch, n):
    for _ in range(n):
        lab = torch.rand(batch, 3, SIDE, SIDE)
        yield lab[:, 0].cuda(), lab[:, 1:].flatten(2).transpose(1, 2).cuda()


def run(steps=4, batch=2):
    net = Colouriser().cuda()
    opt = torch.optim.Adam(net.parameters(), 1e-4)
    for n, (grey, ab) in enumerate(photos(batch, steps)):
        loss = (net(grey) - ab).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{n}: {loss.item():.4f}")


run()
