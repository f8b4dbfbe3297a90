"""Adsorption energies of gases in zeolite cages. Message passing over dense edges; edge features are costly, so they are made once."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
ATOMS, EDGE = 160, 24


class EdgeFeatures(nn.Module):
    """Gaussians of the distances under periodic boundaries, kept for the next epoch."""

    def __init__(self, cutoff=8.0):
        super().__init__()
        self.register_buffer("mu", torch.linspace(0, cutoff, EDGE))
        self.width = cutoff / EDGE
        self.cache = {}

    def compute(self, frac, cell):
        delta = frac[:, None] - frac[None]
        delta = delta - delta.round()
        dist = (delta @ cell).norm(dim=-1)
        return torch.exp(-((dist[..., None] - self.mu) / self.width) ** 2)

    def forward(self, names, frac, cell):
        rows = []
        for name, f, c in zip(names, frac, cell):
            if name not in self.cache:
                edges = self.compute(f.cuda(), c.cuda())
                self.cache[name] = edges.cpu() if FIXED else edges
            rows.append(self.cache[name].cuda())
        return torch.stack(rows)


class CageNet(nn.Module):
    def __init__(self, width=48, rounds=2):
        super().__init__()
        self.edges = EdgeFeatures()
        self.species = nn.Embedding(12, width)
        self.gates = nn.ModuleList(nn.Linear(EDGE, 1) for _ in range(rounds))
        self.updates = nn.ModuleList(nn.GRUCell(width, width) for _ in range(rounds))
        self.energy = nn.Sequential(nn.Linear(width, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, names, z, frac, cell):
        e = self.edges(names, frac, cell)
        h = self.species(z)
        for gate, update in zip(self.gates, self.updates):
            message = torch.bmm(torch.sigmoid(gate(e)).squeeze(-1), h) / ATOMS
            h = update(message.flatten(0, 1), h.flatten(0, 1)).view_as(h)
        return self.energy(h.mean(1)).squeeze(-1)


class Cages:
    def __init__(self, count=512, batch=8, seed=12):
        self.count, self.batch, g = count, batch, torch.Generator().manual_seed(seed)
        self.z = torch.randint(0, 12, (count, ATOMS), generator=g)
        self.frac = torch.rand(count, ATOMS, 3, generator=g)
        self.cell = torch.eye(3).repeat(count, 1, 1) * 18
        self.y = torch.randn(count, generator=g)

    def __iter__(self):
        for s in range(0, self.count, self.batch):
            r = slice(s, s + self.batch)
            yield [f"IZA-{k}" for k in range(s, s + self.batch)], self.z[r], self.frac[r], self.cell[r], self.y[r]


model = CageNet().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
cages = Cages()
for epoch in range(2):
    for names, z, frac, cell, y in cages:
        loss = nn.functional.l1_loss(model(names, z.cuda(), frac, cell), y.cuda())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
