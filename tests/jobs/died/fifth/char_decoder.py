"""Trains a character-level decoder on plays, with its loss on the held-out act every few steps."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
BLOCK, LETTERS, BATCH = 256, 96, 24
EVAL_BATCH = 24 if FIXED else 384


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((dim, 3 * dim), (dim, 3 * dim), (3 * dim, dim)))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class CharDecoder(nn.Module):
    def __init__(self, dim=256, heads=4, layers=4):
        super().__init__()
        self.letter, self.place = nn.Embedding(LETTERS, dim), nn.Embedding(BLOCK, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.head = nn.Linear(dim, LETTERS)

    def forward(self, ids, targets):
        x = self.letter(ids) + self.place.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


class Text:
    def __init__(self, n):
        self.letters = torch.arange(n) % LETTERS

    def batch(self, size):
        starts = torch.randint(len(self.letters) - BLOCK - 1, (size,))
        rows = torch.stack([self.letters[s:s + BLOCK + 1] for s in starts.tolist()]).cuda()
        return rows[:, :-1], rows[:, 1:]


@torch.no_grad()
def held_out_loss(model, text, windows=768):
    model.eval()
    losses = [model(*text.batch(EVAL_BATCH)).item() for _ in range(windows // EVAL_BATCH)]
    model.train()
    return sum(losses) / len(losses)


torch.manual_seed(1337)
play, act = Text(200000), Text(40000)
model = CharDecoder().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
for step in range(12):
    loss = model(*play.batch(BATCH))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 6 == 5:
        print("step", step, "train", loss.item(), "held out", held_out_loss(model, act))
