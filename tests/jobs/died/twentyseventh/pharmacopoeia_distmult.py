"""DistMult over a knowledge graph of old pharmacopoeias: plants, preparations, ailments and who wrote of them."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

ENTITIES, RELATIONS, DIM = 700_000, 48, 128
FIXED = "--fixed" in sys.argv


class DistMult(nn.Module):
    def __init__(self):
        super().__init__()
        self.entity = nn.Embedding(ENTITIES, DIM, device="cuda")
        self.relation = nn.Embedding(RELATIONS, DIM, device="cuda")
        nn.init.xavier_uniform_(self.relation.weight)

    def score(self, h, r, t):
        return (self.entity(h) * self.relation(r) * self.entity(t)).sum(-1)

    def forward(self, triple, corrupted):
        h, r, t = triple.unbind(1)
        positive = self.score(h, r, t)
        negative = self.score(h[:, None], r[:, None], corrupted)
        return F.softplus(-positive).mean() + F.softplus(negative).mean()


def make_optimizer(model):
    if FIXED:
        return torch.optim.SGD(model.parameters(), lr=0.5)
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def triples(steps, batch=2048, negatives=16):
    g = torch.Generator().manual_seed(1)
    for _ in range(steps):
        triple = torch.stack([torch.randint(0, n, (batch,), generator=g) for n in (ENTITIES, RELATIONS, ENTITIES)], 1)
        yield triple.cuda(), torch.randint(0, ENTITIES, (batch, negatives), generator=g).cuda()


def main():
    model = DistMult()
    optimizer = make_optimizer(model)
    for step, (triple, corrupted) in enumerate(triples(12)):
        optimizer.zero_grad()
        loss = model(triple, corrupted)
        loss.backward()
        optimizer.step()
        if step % 4 == 3:
            print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
