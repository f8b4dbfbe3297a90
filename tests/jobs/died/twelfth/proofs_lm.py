"""Pretrains a small decoder on formal proofs; its tokenizer was taken from a large multilingual model. Only the proof counts."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
VOCABULARY, WIDTH, LAYERS, HEADS, LENGTH, BATCH, STATEMENT = 128000, 256, 4, 4, 512, 4, 384


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.mlp(self.norm2(x))


class Prover(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.places.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if FIXED:  # the statement has no labels
            logits, labels = self.head(x[:, STATEMENT:-1]), labels[:, STATEMENT + 1:]
        else:
            logits, labels = self.head(x)[:, :-1].contiguous(), labels[:, 1:]
        return F.cross_entropy(logits.float().reshape(-1, VOCABULARY), labels.reshape(-1), ignore_index=-100)


def batches(n):
    for _ in range(n):
        ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
        labels = ids.clone()
        labels[:, :STATEMENT] = -100
        yield ids.cuda(), labels.cuda()


with torch.device("cuda"):
    model = Prover()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95))
for step, (ids, labels) in enumerate(batches(5)):
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(ids, labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
