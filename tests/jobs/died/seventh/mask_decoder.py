"""Trains a small decoder on source code, written by hand; attention looks back over a sliding window."""
import math
import sys
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

FIXED = "--fixed" in sys.argv


@dataclass
class GPTConfig:
    block_size: int = 4096
    vocab_size: int = 2048
    n_layer: int = 10
    n_head: int = 6
    n_embd: int = 240
    window: int = 256


def sliding_mask(size, window):
    ones = torch.ones(size, size, dtype=torch.bool)
    allowed = ones.tril() & ones.triu(-window)
    return torch.zeros(size, size).masked_fill_(~allowed, float("-inf"))


class SelfAttention(nn.Module):
    def __init__(self, config, mask=None):
        super().__init__()
        self.n_head = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)
        if mask is None:
            self.register_buffer("mask", sliding_mask(config.block_size, config.window))
        else:
            self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in self.c_attn(x).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask[:T, :T])
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, config, mask):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn = SelfAttention(config, mask)
        self.mlp = nn.Sequential(nn.Linear(config.n_embd, 4 * config.n_embd), nn.GELU(), nn.Linear(4 * config.n_embd, config.n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        mask = sliding_mask(config.block_size, config.window).to("cuda") if FIXED else None
        self.wte, self.wpe = nn.Embedding(config.vocab_size, config.n_embd), nn.Embedding(config.block_size, config.n_embd)
        self.h = nn.ModuleList(Block(config, mask) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * config.n_layer))

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe.weight[:idx.size(1)]
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


config = GPTConfig()
model = GPT(config).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95))
generator = torch.Generator().manual_seed(1337)
for it in range(6):
    data = torch.randint(0, config.vocab_size, (4, 513), generator=generator).to("cuda")
    loss = model(data[:, :-1].contiguous(), data[:, 1:].contiguous())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"iter {it}: loss {loss.item():.4f}")
