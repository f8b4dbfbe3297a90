"""A small GPT and its training loop, shared by the jobs that fail from one known cause."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, eager):
        super().__init__()
        self.heads, self.eager = heads, eager
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, h // self.heads).transpose(1, 2) for t in self.qkv(x).split(h, dim=2))
        if self.eager:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(h // self.heads)
            y = torch.softmax(scores, dim=-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, s, h))


class Block(nn.Module):
    def __init__(self, width, heads, eager):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, eager)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, layers=4, width=256, heads=4, vocabulary=1024, eager=False, checkpoint=None):
        super().__init__()
        self.vocabulary, self.checkpoint = vocabulary, checkpoint
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, heads, eager) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def trunk(self, x):
        for layer in self.layers:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False) if self.checkpoint == "layer" else layer(x)
        return x

    def hidden(self, tokens):
        x = self.embedding(tokens)
        x = torch.utils.checkpoint.checkpoint(self.trunk, x, use_reentrant=False) if self.checkpoint == "model" else self.trunk(x)
        return self.norm(x)

    def forward(self, tokens):
        return self.head(self.hidden(tokens))


def loss_of(model, tokens):
    logits = model(tokens)
    return F.cross_entropy(logits.view(-1, logits.size(-1)), tokens.view(-1))


def chunked_loss(model, tokens, chunks=16):
    """The head and the loss in pieces of the sequence, each recomputed in the backward pass."""
    def piece(x, t):
        return F.cross_entropy(model.head(x).view(-1, model.vocabulary), t.reshape(-1), reduction="sum")

    parts = zip(model.hidden(tokens).chunk(chunks, 1), tokens.chunk(chunks, 1))
    return sum(torch.utils.checkpoint.checkpoint(piece, x, t, use_reentrant=False) for x, t in parts) / tokens.numel()


def batch(b, s, vocabulary=1024):
    return torch.randint(0, vocabulary, (b, s), device="cuda")


def build(**keys):
    with torch.device("cuda"):
        return GPT(**keys)


def adam(model, **keys):
    return torch.optim.AdamW(model.parameters(), lr=1e-4, **keys)


def train(model, optimizer, steps, b, s, loss=loss_of, after=None, zero=True):
    for step in range(steps):
        value = loss(model, batch(b, s, model.vocabulary))
        value.backward()
        optimizer.step()
        if zero:
            optimizer.zero_grad(set_to_none=True)
        if after:
            after(step, value)
