"""Classifies enzymes from graphs of their residues: a batch is one large graph of several proteins, with attention over the edges (GATv2 by hand)."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

# residues of the proteins, in the order of the file; the last but two is a complex of a virus
SIZES = [310, 250, 420, 180, 390, 275, 330, 290, 405, 220, 360, 340, 260, 415, 300, 280, 370, 240, 9200, 325, 295, 350]
LARGEST = 600 if "--fixed" in sys.argv else None
DEGREE, KINDS = 24, 7


class GatV2(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.left, self.right = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.a = nn.Parameter(torch.randn(heads, dim // heads) * 0.1)
        self.norm, self.heads = nn.LayerNorm(dim), heads

    def forward(self, x, source, target):
        left, right = self.left(x).unflatten(1, (self.heads, -1)), self.right(x).unflatten(1, (self.heads, -1))
        messages = left[source]
        score = (F.leaky_relu(messages + right[target], 0.2) * self.a).sum(-1)
        weight = score.sub(score.max()).exp()
        total = torch.zeros(len(x), self.heads, device=x.device).index_add_(0, target, weight)
        out = torch.zeros_like(left).index_add_(0, target, messages * (weight / total[target])[..., None])
        return self.norm(x + F.elu(out.flatten(1)))


class EnzymeNet(nn.Module):
    def __init__(self, dim=128, layers=4):
        super().__init__()
        self.table = nn.Embedding(21, dim)
        self.layers = nn.ModuleList(GatV2(dim, 4) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, KINDS))

    def forward(self, residues, source, target, protein, proteins):
        x = self.table(residues)
        for layer in self.layers:
            x = layer(x, source, target)
        pooled = torch.zeros(proteins, x.shape[1], device=x.device).index_add_(0, protein, x)
        return self.head(pooled)


def graphs(sizes, per_batch):
    for i in range(0, len(sizes), per_batch):
        chosen = [min(n, LARGEST) if LARGEST else n for n in sizes[i:i + per_batch]]
        offset, sources, targets = 0, [], []
        for n in chosen:
            targets.append(torch.arange(n).repeat_interleave(DEGREE) + offset)
            sources.append(torch.randint(0, n, (n * DEGREE,)) + offset)
            offset += n
        protein = torch.arange(len(chosen)).repeat_interleave(torch.tensor(chosen))
        yield torch.randint(0, 21, (offset,)), torch.cat(sources), torch.cat(targets), protein, torch.randint(0, KINDS, (len(chosen),))


def main():
    model = EnzymeNet().to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    for step, batch in enumerate(graphs(SIZES, 2)):
        residues, source, target, protein, kind = (t.to("cuda") for t in batch)
        loss = F.cross_entropy(model(residues, source, target, protein, len(kind)), kind)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print("step", step, "residues", len(residues), "loss", loss.item())


main()
