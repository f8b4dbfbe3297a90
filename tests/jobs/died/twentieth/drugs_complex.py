"""Links of a pharmacological knowledge graph by ComplEx, with corrupted tails as negatives."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

ENTITIES, RELATIONS, DIM = 1_600_000, 48, 128


class ComplEx(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.entity = nn.Embedding(ENTITIES, 2 * DIM, sparse=sparse)
        self.relation = nn.Embedding(RELATIONS, 2 * DIM)
        nn.init.uniform_(self.entity.weight, -0.05, 0.05)

    def score(self, head, relation, tail):
        hr, hi = self.entity(head).chunk(2, -1)
        rr, ri = self.relation(relation).chunk(2, -1)
        tr, ti = self.entity(tail).chunk(2, -1)
        return (hr * rr * tr + hi * rr * ti + hr * ri * ti - hi * ri * tr).sum(-1)


class Triples:
    """(drug, relation, target) and the number of wrong tails per triple."""

    def __init__(self, negatives=24):
        self.generator = torch.Generator().manual_seed(5)
        self.negatives = negatives

    def draw(self, size=1024):
        def entities(*shape):
            return torch.randint(0, ENTITIES, shape, generator=self.generator)
        return entities(size), torch.randint(0, RELATIONS, (size,), generator=self.generator), entities(size), entities(size, self.negatives)


def margin(model, head, relation, tail, wrong):
    good = model.score(head, relation, tail)
    bad = model.score(head[:, None], relation[:, None], wrong)
    return F.softplus(-good).mean() + F.softplus(bad).mean()


torch.manual_seed(2)
model = ComplEx(sparse="--fixed" in sys.argv).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
triples = Triples()
for step in range(20):
    loss = margin(model, *(t.cuda() for t in triples.draw()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(f"{step:4d} {loss.item():.4f}")
