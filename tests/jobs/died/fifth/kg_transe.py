"""Embeds a knowledge graph with TransE: entities and relations, negative sampling, plain SGD."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--entities", type=int, default=3_000_000)
parser.add_argument("--relations", type=int, default=800)
parser.add_argument("--dim", type=int, default=128)
parser.add_argument("--batch", type=int, default=4096)
parser.add_argument("--negatives", type=int, default=8)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()


class TransE(nn.Module):
    def __init__(self, entities, relations, dim, margin=6.0):
        super().__init__()
        # made on the device: the table would take long to copy
        self.entity = nn.Embedding(entities, dim, sparse=args.fixed, device="cuda")
        self.relation = nn.Embedding(relations, dim, device="cuda")
        self.margin = margin
        nn.init.uniform_(self.relation.weight, -6 / dim ** 0.5, 6 / dim ** 0.5)

    def distance(self, head, relation, tail):
        return (self.entity(head) + self.relation(relation) - self.entity(tail)).abs().sum(-1)

    def forward(self, triples, corrupted):
        head, relation, tail = triples.unbind(-1)
        good = self.distance(head, relation, tail)
        bad = self.distance(head[:, None], relation[:, None], corrupted)
        return F.relu(self.margin + good[:, None] - bad).mean()


class Triples(torch.utils.data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        generator = torch.Generator().manual_seed(11)
        for _ in range(self.n):
            heads, tails = torch.randint(args.entities, (2, args.batch), generator=generator)
            relations = torch.randint(args.relations, (args.batch,), generator=generator)
            corrupted = torch.randint(args.entities, (args.batch, args.negatives), generator=generator)
            yield torch.stack([heads, relations, tails], 1), corrupted


model = TransE(args.entities, args.relations, args.dim)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step, (triples, corrupted) in enumerate(torch.utils.data.DataLoader(Triples(args.steps), batch_size=None)):
    loss = model(triples.cuda(), corrupted.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item())
print("entities", args.entities, "trained on", args.steps * args.batch, "triples")
