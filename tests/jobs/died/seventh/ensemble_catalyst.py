"""Trains an ensemble of crystal graph networks on the energies of catalysts, so that their spread tells how far a prediction can be trusted."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
MEMBERS, ATOMS, NEIGHBOURS, CRYSTALS = 6, 60, 12, 32


class CrystalConv(nn.Module):
    def __init__(self, width, edge):
        super().__init__()
        self.both = nn.Linear(2 * width + edge, 2 * width)
        self.norm = nn.BatchNorm1d(2 * width)

    def forward(self, atoms, bonds, neighbour):
        n, m = neighbour.shape
        around = F.embedding(neighbour, atoms)
        message = torch.cat([atoms.unsqueeze(1).expand(-1, m, -1), around, bonds], -1)
        gate, core = self.norm(self.both(message).flatten(0, 1)).view(n, m, -1).chunk(2, -1)
        return F.softplus(atoms + (torch.sigmoid(gate) * F.softplus(core)).sum(1))


class CrystalNet(nn.Module):
    def __init__(self, width=96, edge=40, layers=4):
        super().__init__()
        self.species = nn.Embedding(100, width)
        self.layers = nn.ModuleList(CrystalConv(width, edge) for _ in range(layers))
        self.energy = nn.Sequential(nn.Linear(width, 128), nn.Softplus(), nn.Linear(128, 1))

    def forward(self, species, bonds, neighbour):
        atoms = self.species(species)
        for layer in self.layers:
            atoms = layer(atoms, bonds, neighbour)
        return self.energy(atoms.view(CRYSTALS, ATOMS, -1).mean(1)).squeeze(-1)


class Ensemble(nn.ModuleList):
    def __init__(self, members):
        super().__init__(CrystalNet() for _ in range(members))

    def losses(self, batch, energy):
        for member in self:
            yield F.huber_loss(member(*batch), energy)


def crystals(steps):
    total = ATOMS * CRYSTALS
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        offset = torch.arange(total).div(ATOMS, rounding_mode="floor").mul(ATOMS).unsqueeze(1)
        neighbour = torch.randint(0, ATOMS, (total, NEIGHBOURS), generator=generator) + offset
        species = torch.randint(0, 100, (total,), generator=generator)
        yield (species.cuda(), torch.zeros(total, NEIGHBOURS, 40).cuda(), neighbour.cuda()), torch.zeros(CRYSTALS).cuda()


def step(ensemble, optimizer, batch, energy):
    optimizer.zero_grad()
    if FIXED:
        total = 0.0
        for loss in ensemble.losses(batch, energy):
            loss.backward()
            total += loss.item()
    else:
        loss = sum(ensemble.losses(batch, energy))
        loss.backward()
        total = loss.item()
    optimizer.step()
    return total / MEMBERS


ensemble = Ensemble(MEMBERS).cuda()
optimizer = torch.optim.Adam(ensemble.parameters(), lr=1e-3)
for n, (batch, energy) in enumerate(crystals(5)):
    print("step", n, "mean loss", step(ensemble, optimizer, batch, energy))
