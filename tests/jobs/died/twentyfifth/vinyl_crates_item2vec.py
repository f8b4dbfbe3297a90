"""Item2vec over the crates of record collectors: records that stand in one crate get similar vectors (negative sampling)."""
import sys

import torch
from torch import nn
from torch.nn.functional import logsigmoid

FIXED = "--fixed" in sys.argv
RECORDS, DIM = 900_000, 128


class Item2Vec(nn.Module):
    def __init__(self):
        super().__init__()
        self.target = nn.Embedding(RECORDS, DIM, sparse=FIXED, device="cuda")
        self.context = nn.Embedding(RECORDS, DIM, sparse=FIXED, device="cuda")
        nn.init.uniform_(self.target.weight, -0.5 / DIM, 0.5 / DIM)
        nn.init.zeros_(self.context.weight)

    def forward(self, centre, around, noise):
        t = self.target(centre)
        good = (t[:, None] * self.context(around)).sum(-1)
        bad = (t[:, None] * self.context(noise)).sum(-1)
        return -(logsigmoid(good).mean() + logsigmoid(-bad).mean())


class Crates:
    def __init__(self, batch=2048, window=4, negatives=10):
        self.gen = torch.Generator().manual_seed(33)
        self.batch, self.window, self.negatives = batch, window, negatives

    def draw(self, *shape):
        # popular records have small numbers
        return (torch.rand(*shape, generator=self.gen) ** 3 * RECORDS).long()

    def __iter__(self):
        for _ in range(12):
            yield self.draw(self.batch), self.draw(self.batch, self.window), self.draw(self.batch, self.negatives)


def main():
    model = Item2Vec()
    optimizer = (torch.optim.SparseAdam if FIXED else torch.optim.Adam)(list(model.parameters()), lr=2e-3)
    for step, sample in enumerate(Crates()):
        loss = model(*(s.cuda() for s in sample))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())


main()
