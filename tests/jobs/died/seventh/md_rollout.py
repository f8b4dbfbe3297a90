"""Runs molecular dynamics of water with a trained neural potential and prints the temperature; forces are gradients of the energy."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
MOLECULES, STEPS, CUTOFF = 96, 30, 6.0


class RadialBasis(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.register_buffer("centres", torch.linspace(0.5, CUTOFF, count))
        self.width = CUTOFF / count

    def forward(self, d):
        return torch.exp(-((d.unsqueeze(-1) - self.centres) / self.width) ** 2)


class Potential(nn.Module):
    """The sum of learned pair energies, with a network over radial basis functions."""

    def __init__(self, basis=16, hidden=32):
        super().__init__()
        self.basis = RadialBasis(basis)
        self.net = nn.Sequential(nn.Linear(basis, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))
        self.charge = nn.Parameter(torch.tensor([-0.8, 0.4, 0.4]))

    def forward(self, x):
        delta = x.unsqueeze(0) - x.unsqueeze(1)
        d = (delta.pow(2).sum(-1) + 1e-6).sqrt()
        pair = self.net(self.basis(d)).squeeze(-1)
        q = self.charge.repeat(MOLECULES)
        return 0.5 * (pair + q[:, None] * q[None, :] / (d + 1)).sum()


class Verlet:
    def __init__(self, potential, positions, masses, dt):
        self.potential, self.dt = potential, dt
        self.x = positions.requires_grad_()
        self.v = torch.zeros_like(positions)
        self.m = masses.unsqueeze(-1)
        self.f = self.forces()

    def forces(self):
        if FIXED:
            self.x = self.x.detach().requires_grad_()
            self.v = self.v.detach()
            return -torch.autograd.grad(self.potential(self.x), self.x)[0]
        energy = self.potential(self.x)
        return -torch.autograd.grad(energy, self.x, create_graph=True)[0]

    def step(self):
        half = self.v + 0.5 * self.dt * self.f / self.m
        self.x = self.x + self.dt * half
        self.f = self.forces()
        self.v = half + 0.5 * self.dt * self.f / self.m

    def temperature(self):
        return (self.m * self.v.pow(2)).sum().item() / (3 * len(self.x))


def lattice():
    side = 5
    grid = torch.stack(torch.meshgrid(*[torch.arange(side) * 3.1] * 3, indexing="ij"), -1).view(-1, 3)[:MOLECULES]
    shape = torch.tensor([[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]])
    return (grid.unsqueeze(1) + shape).view(-1, 3), torch.tensor([16.0, 1.0, 1.0]).repeat(MOLECULES)


def main():
    potential = Potential().eval().cuda()
    positions, masses = (t.cuda() for t in lattice())
    dynamics = Verlet(potential, positions, masses, dt=0.5)
    for step in range(STEPS):
        dynamics.step()
        if step % 5 == 0:
            print("step", step, "temperature", dynamics.temperature())


main()
