"""BabyLM for many scripts at once: one decoder with a joint vocabulary for 60 languages."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

FIXED = "--fixed" in sys.argv
VOCAB, CONTEXT, DIM = 200_000, 256, 128


class Layer(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.up, self.down = nn.Linear(DIM, 4 * DIM, bias=False), nn.Linear(4 * DIM, DIM, bias=False)
        self.heads = heads

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, DIM))
        return x + self.down(F.relu(self.up(self.n2(x))).square())


class BabyLM(nn.Module):
    def __init__(self, depth=6):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, DIM)
        self.wpe = nn.Embedding(CONTEXT, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(depth))
        self.norm = nn.RMSNorm(DIM)
        nn.init.normal_(self.wte.weight, std=0.02)

    def token_loss(self, x, targets):
        logits = x @ self.wte.weight.T
        return F.cross_entropy(logits.float(), targets, reduction="sum")

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device))
        for layer in self.layers:
            x = layer(x)
        x, targets = self.norm(x).flatten(0, 1), targets.flatten()
        if not FIXED:
            return self.token_loss(x, targets) / len(targets)
        pieces = zip(x.split(128), targets.split(128))
        return sum(checkpoint(self.token_loss, a, b, use_reentrant=False) for a, b in pieces) / len(targets)


def sample_batch(gen, size=4):
    tokens = torch.randint(0, VOCAB, (size, CONTEXT + 1), generator=gen)
    return tokens[:, :-1].cuda(), tokens[:, 1:].cuda()


def main():
    gen = torch.Generator().manual_seed(60)
    lm = BabyLM().cuda()
    optimizer = torch.optim.AdamW(lm.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    for it in range(10):
        loss = lm(*sample_batch(gen))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print(f"it {it} | loss {loss.item():.4f}")


main()
