"""A decoder for folk tunes in ABC notation, written by hand after a lecture; long context, a mask in each attention layer."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
CHARACTERS, WIDTH, HEADS, LAYERS, LONGEST = 128, 192, 6, 8, 4096


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        if not FIXED:
            self.register_buffer("mask", torch.triu(torch.full((LONGEST, LONGEST), -1e9), 1)[None, None], persistent=False)

    def causal(self, t, device):
        if FIXED:
            return torch.triu(torch.full((t, t), -1e9, device=device), 1)
        return self.mask[:, :, :t, :t]

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (p.view(b, t, HEADS, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS) + self.causal(t, x.device)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.feed(self.n2(x))


class Tunes(nn.Module):
    def __init__(self):
        super().__init__()
        self.characters, self.places = nn.Embedding(CHARACTERS, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CHARACTERS)

    def forward(self, ids):
        x = self.characters(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


def main():
    model = Tunes().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(4):
        ids = torch.randint(0, CHARACTERS, (4, 257)).to("cuda")
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


main()
