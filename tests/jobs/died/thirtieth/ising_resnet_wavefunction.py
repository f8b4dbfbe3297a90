"""Variational Monte Carlo for the transverse-field Ising model on a square lattice with a convolutional wave function."""
import sys

import torch
import torch.nn as nn

torch.set_default_dtype(torch.float32 if "--fixed" in sys.argv else torch.float64)
SIDE, FIELD, CHAINS = 12, 3.04, 512


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one = nn.Conv2d(width, width, 3, padding=1, padding_mode="circular")
        self.two = nn.Conv2d(width, width, 3, padding=1, padding_mode="circular")

    def forward(self, x):
        return x + self.two(nn.functional.gelu(self.one(nn.functional.gelu(x))))


class ResNetWave(nn.Module):
    """log psi of a configuration, the same for all translations of it."""

    def __init__(self, width=48, depth=6):
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, padding=1, padding_mode="circular")
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, spins):
        x = self.blocks(self.first(spins.unsqueeze(1)))
        return self.out(x.mean((2, 3))).squeeze(-1)


def start(gen):
    return (torch.randint(0, 2, (CHAINS, SIDE, SIDE), generator=gen) * 2 - 1).to(torch.get_default_dtype()).cuda()


@torch.no_grad()
def metropolis(log_psi, spins, gen, sweeps=2):
    current = log_psi(spins)
    for _ in range(sweeps):
        site = torch.randint(0, SIDE * SIDE, (CHAINS, 1), generator=gen).cuda()
        flip = torch.ones(CHAINS, SIDE * SIDE, device="cuda").scatter(1, site, -1.0).view_as(spins)
        new = log_psi(spins * flip)
        accept = torch.rand(CHAINS, generator=gen).cuda() < torch.exp(2 * (new - current))
        spins = torch.where(accept[:, None, None], spins * flip, spins)
        current = torch.where(accept, new, current)
    return spins


@torch.no_grad()
def local_energy(log_psi, spins, gen, sites=4):
    bonds = spins * (spins.roll(1, 1) + spins.roll(1, 2))
    energy = -bonds.sum((1, 2))
    base = log_psi(spins)
    for site in torch.randperm(SIDE * SIDE, generator=gen)[:sites].tolist():
        other = spins.clone()
        other[:, site // SIDE, site % SIDE] *= -1
        energy -= FIELD * torch.exp(log_psi(other) - base) * (SIDE * SIDE / sites)
    return energy


def main():
    gen = torch.Generator().manual_seed(1925)
    log_psi = ResNetWave().cuda()
    opt = torch.optim.Adam(log_psi.parameters(), lr=5e-4)
    spins = start(gen)
    for it in range(6):
        spins = metropolis(log_psi, spins, gen)
        energy = local_energy(log_psi, spins, gen)
        loss = 2 * ((energy - energy.mean()) * log_psi(spins)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"iteration {it}: energy per site {energy.mean().item() / SIDE ** 2:.5f}")


if __name__ == "__main__":
    main()
