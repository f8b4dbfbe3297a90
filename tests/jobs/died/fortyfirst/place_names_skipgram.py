"""Vectors for 1.5 million place names from the routes on which they stand together (skip-gram with negative samples)."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class SkipGram(nn.Module):
    """A vector per name as a centre, and one as a neighbour."""

    def __init__(self, names, dim, sparse):
        super().__init__()
        self.centre = nn.Embedding(names, dim, sparse=sparse)
        self.neighbour = nn.Embedding(names, dim, sparse=sparse)
        nn.init.uniform_(self.centre.weight, -0.5 / dim, 0.5 / dim)
        nn.init.zeros_(self.neighbour.weight)

    def forward(self, centre, beside, negative):
        u = self.centre(centre)
        good = (u * self.neighbour(beside)).sum(-1)
        bad = torch.bmm(self.neighbour(negative), u.unsqueeze(-1)).squeeze(-1)
        return -(F.logsigmoid(good) + F.logsigmoid(-bad).sum(-1)).mean()


class Routes:
    """Pairs of names within two stops of each other, with negative samples by frequency."""

    def __init__(self, names, batch, negatives):
        self.names, self.batch, self.negatives = names, batch, negatives
        self.generator = torch.Generator().manual_seed(101)

    def draw(self, *shape):
        rank = torch.rand(*shape, generator=self.generator).pow(4)
        return (rank * self.names).long().clamp_(max=self.names - 1)

    def __iter__(self):
        while True:
            yield self.draw(self.batch), self.draw(self.batch), self.draw(self.batch, self.negatives)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=1_500_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--negatives", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--fixed", action="store_true", help="sparse gradients: only the rows of the batch")
    args = parser.parse_args()
    with torch.device("cuda"):
        model = SkipGram(args.names, args.dim, sparse=args.fixed)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for step, rows in zip(range(args.steps), Routes(args.names, args.batch, args.negatives)):
        loss = model(*(r.cuda() for r in rows))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 3 == 0:
            print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
