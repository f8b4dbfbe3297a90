"""Word vectors from two million wine tasting notes: skip-gram with negative sampling, words and bigrams up to 600k entries."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument("--dim", type=int, default=100)
ap.add_argument("--entries", type=int, default=600_000)
ap.add_argument("--negatives", type=int, default=8)
ap.add_argument("--fixed", action="store_true")
opt = ap.parse_args()


class SkipGram(nn.Module):
    def __init__(self, entries, dim, sparse):
        super().__init__()
        self.center = nn.Embedding(entries, dim, sparse=sparse)
        self.context = nn.Embedding(entries, dim, sparse=sparse)
        nn.init.zeros_(self.context.weight)

    def forward(self, center, context, noise):
        c = self.center(center)
        good = (c * self.context(context)).sum(-1)
        bad = torch.bmm(self.context(noise), c.unsqueeze(-1)).squeeze(-1)
        return -(F.logsigmoid(good) + F.logsigmoid(-bad).sum(-1)).mean()


class Pairs:
    """Pairs with a Zipf-like distribution of words."""

    def __init__(self, batches, size):
        self.batches, self.size, self.gen = batches, size, torch.Generator().manual_seed(96)

    def words(self, *shape):
        return (torch.rand(*shape, generator=self.gen) ** 4 * opt.entries).long().clamp(max=opt.entries - 1)

    def __iter__(self):
        for _ in range(self.batches):
            yield self.words(self.size), self.words(self.size), self.words(self.size, opt.negatives)


with torch.device("cuda"):
    model = SkipGram(opt.entries, opt.dim, sparse=opt.fixed)
if opt.fixed:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
else:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for n, batch in enumerate(Pairs(20, 4096)):
    loss = model(*(t.to("cuda") for t in batch))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if n % 5 == 0:
        print("batch", n, "loss", loss.item())
