"""Energies and forces of small molecules: a message-passing network; the reference data are in double precision.

After https://github.com/dfalbel/torch/issues/12 and https://github.com/ourownstory/neural_prophet/pull/1402
"""
import argparse

import numpy
import torch
from torch import nn


def molecules(steps, batch, atoms):
    """Stands for an .npz file of a quantum chemistry program."""
    for _ in range(steps):
        yield numpy.random.rand(batch, atoms, 3), numpy.random.randint(1, 10, (batch, atoms)), numpy.random.rand(batch), numpy.zeros((batch, atoms, 3))


class Interaction(nn.Module):
    def __init__(self, width, radial):
        super().__init__()
        self.filters = nn.Sequential(nn.Linear(radial, width), nn.SiLU(), nn.Linear(width, width))
        self.inner, self.outer = nn.Linear(width, width), nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, x, rbf):
        return x + self.outer((self.inner(x).unsqueeze(1) * self.filters(rbf)).sum(2))


class Potential(nn.Module):
    def __init__(self, width=192, radial=32, layers=3):
        super().__init__()
        self.embed = nn.Embedding(10, width)
        self.register_buffer("centres", torch.linspace(0, 5, radial))
        self.layers = nn.ModuleList([Interaction(width, radial) for _ in range(layers)])
        self.energy = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, places, kinds):
        distance = (places.unsqueeze(1) - places.unsqueeze(2)).pow(2).sum(-1).add(1e-9).sqrt()
        rbf = torch.exp(-10 * (distance.unsqueeze(-1) - self.centres) ** 2)
        x = self.embed(kinds)
        for layer in self.layers:
            x = layer(x, rbf)
        return self.energy(x).sum((1, 2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()
    model = Potential().to("cuda")
    if not args.fixed:
        model = model.double()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step, (places, kinds, energies, forces) in enumerate(molecules(5, args.batch, 40)):
        kind = next(model.parameters()).dtype
        places = torch.from_numpy(places).to("cuda", kind).requires_grad_()
        energy = model(places, torch.from_numpy(kinds).to("cuda"))
        force = -torch.autograd.grad(energy.sum(), places, create_graph=True)[0]
        loss = (energy - torch.from_numpy(energies).to("cuda", kind)).pow(2).mean()
        loss = loss + 100 * (force - torch.from_numpy(forces).to("cuda", kind)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
