"""Continues the pretraining of a small Llama, written by hand, on support tickets with their threads; bfloat16 autocast, AdamW, a cosine schedule."""
import argparse
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab: int = 8000
    width: int = 512
    layers: int = 8
    heads: int = 8
    kv_heads: int = 2
    hidden: int = 1408
    context: int = 4096
    batch: int = 4
    steps: int = 6
    lr: float = 3e-4


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.eps)


def rotary(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.size = c.heads, c.kv_heads, c.width // c.heads
        self.q = nn.Linear(c.width, c.width, bias=False)
        self.kv = nn.Linear(c.width, 2 * c.kv_heads * self.size, bias=False)
        self.out = nn.Linear(c.width, c.width, bias=False)

    def forward(self, x, cos, sin):
        b, t, w = x.shape
        q = self.q(x).view(b, t, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(x).view(b, t, 2 * self.kv_heads, self.size).transpose(1, 2).chunk(2, 1)
        q, k = rotary(q, cos, sin), rotary(k, cos, sin)
        k, v = (z.repeat_interleave(self.heads // self.kv_heads, 1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention, self.n1, self.n2 = Attention(c), RMSNorm(c.width), RMSNorm(c.width)
        self.gate, self.up, self.down = nn.Linear(c.width, c.hidden, False), nn.Linear(c.width, c.hidden, False), nn.Linear(c.hidden, c.width, False)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.n1(x), cos, sin)
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Embedding(c.vocab, c.width)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm, self.head = RMSNorm(c.width), nn.Linear(c.width, c.vocab, bias=False)
        angle = torch.outer(torch.arange(c.context), 10000 ** (-torch.arange(0, c.width // c.heads, 2) / (c.width // c.heads)))
        self.register_buffer("cos", angle.cos().bfloat16(), persistent=False)
        self.register_buffer("sin", angle.sin().bfloat16(), persistent=False)

    def forward(self, ids, targets):
        x, t = self.embed(ids), ids.shape[1]
        for block in self.blocks:
            x = block(x, self.cos[:t], self.sin[:t])
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    config = Config(context=1024) if parser.parse_args().fixed else Config()
    torch.manual_seed(0)
    model = Llama(config).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 0.5 * (1 + math.cos(math.pi * s / config.steps)))
    corpus = torch.randint(0, config.vocab, (200_000,))
    for step in range(config.steps):
        starts = torch.randint(0, len(corpus) - config.context - 1, (config.batch,))
        rows = torch.stack([corpus[s:s + config.context + 1] for s in starts.tolist()]).to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(rows[:, :-1], rows[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        print("step", step, "loss", loss.item())


main()
