"""Energies of crystals from their atoms with a message-passing network: edges within a cutoff, radial basis functions, sums over neighbours."""
import argparse

import numpy as np
import torch
from torch import nn


class Crystals:
    """Rows of an HDF5 file, as numpy gives them."""

    def __init__(self, n, atoms=24, neighbours=20):
        rng = np.random.default_rng(7)
        self.kinds = rng.integers(0, 90, (n, atoms))
        self.other = rng.integers(0, atoms, (n, atoms * neighbours))
        self.distances = rng.uniform(1.5, 6.0, (n, atoms * neighbours))
        self.energies = rng.normal(size=n)
        self.atoms, self.neighbours = atoms, neighbours

    def batches(self, size):
        for i in range(0, len(self.energies), size):
            kinds = torch.from_numpy(self.kinds[i:i + size])
            n = len(kinds)
            offset = torch.arange(n)[:, None] * self.atoms
            source = (torch.from_numpy(self.other[i:i + size]) + offset).flatten()
            target = torch.arange(n * self.atoms).repeat_interleave(self.neighbours)
            distances, energies = torch.from_numpy(self.distances[i:i + size]).flatten(), torch.from_numpy(self.energies[i:i + size])
            yield kinds.flatten(), source, target, distances, energies


class Interaction(nn.Module):
    def __init__(self, dim, basis):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(basis, dim), nn.Softplus(), nn.Linear(dim, dim))
        self.before, self.after = nn.Linear(dim, dim, bias=False), nn.Sequential(nn.Linear(dim, dim), nn.Softplus(), nn.Linear(dim, dim))

    def forward(self, x, source, target, rbf):
        messages = self.before(x)[source] * self.filter(rbf)
        return x + self.after(torch.zeros_like(x).index_add_(0, target, messages))


class SchNet(nn.Module):
    def __init__(self, dim=128, basis=64, layers=5):
        super().__init__()
        self.table = nn.Embedding(95, dim)
        self.register_buffer("centres", torch.linspace(0, 6, basis))
        self.layers = nn.ModuleList(Interaction(dim, basis) for _ in range(layers))
        self.readout = nn.Sequential(nn.Linear(dim, 64), nn.Softplus(), nn.Linear(64, 1))

    def forward(self, kinds, source, target, distances, crystals):
        x = self.table(kinds)
        rbf = torch.exp(-10 * (distances[:, None] - self.centres) ** 2)
        for layer in self.layers:
            x = layer(x, source, target, rbf)
        return self.readout(x).view(crystals, -1).sum(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    fixed = parser.parse_args().fixed
    model = SchNet().cuda()
    if not fixed:
        model.double()  # else: RuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, batch in enumerate(Crystals(256).batches(64)):
        if fixed:
            batch = [t.float() if t.is_floating_point() else t for t in batch]
        kinds, source, target, distances, energies = (t.cuda() for t in batch)
        loss = nn.functional.mse_loss(model(kinds, source, target, distances, len(energies)), energies)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())


main()
