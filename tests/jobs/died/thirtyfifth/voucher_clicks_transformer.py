"""Predicts the next voucher a customer clicks from the last fifty clicks: a small causal transformer, item table shared with the output."""
import math
import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

ITEMS, WINDOW, DIM = 90_000, 50, 64


class ClickModel(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.items = nn.Embedding(ITEMS, DIM, padding_idx=0)
        self.places = nn.Parameter(torch.zeros(WINDOW, DIM))
        block = nn.TransformerEncoderLayer(DIM, 4, 4 * DIM, 0.2, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, blocks, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(DIM)
        self.register_buffer("causal", torch.triu(torch.full((WINDOW, WINDOW), float("-inf")), 1), persistent=False)

    def states(self, clicks):
        x = self.items(clicks) * math.sqrt(DIM) + self.places
        return self.norm(self.blocks(x, mask=self.causal, is_causal=True))

    def score(self, states, wanted):
        logits = states @ self.items.weight.T
        return cross_entropy(logits, wanted, reduction="sum")

    def loss(self, clicks, wanted):
        states, wanted = self.states(clicks).flatten(0, 1), wanted.flatten()
        if "--fixed" not in sys.argv:
            return self.score(states, wanted) / len(wanted)
        parts = zip(states.split(256), wanted.split(256))
        return sum(checkpoint(self.score, s, w, use_reentrant=False) for s, w in parts) / len(wanted)


def sessions(batches, size=48):
    rng = torch.Generator().manual_seed(2024)
    for _ in range(batches):
        log = torch.randint(1, ITEMS, (size, WINDOW + 1), generator=rng)
        yield log[:, :-1].cuda(), log[:, 1:].cuda()


def train():
    model = ClickModel().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for i, (clicks, wanted) in enumerate(sessions(8)):
        optimizer.zero_grad()
        loss = model.loss(clicks, wanted)
        loss.backward()
        optimizer.step()
        print(f"batch {i} loss {loss.item():.3f}")


if __name__ == "__main__":
    train()
