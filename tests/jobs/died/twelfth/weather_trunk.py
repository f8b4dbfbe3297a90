"""Predicts weather six hours ahead with a deep residual trunk on a lat-lon grid; activation checkpointing is on."""
import sys

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

FIXED = "--fixed" in sys.argv
FIELDS, GRID, WIDTH, DEPTH = 34, (90, 180), 160, 16


class Wrapped(nn.Module):
    """A convolution for a sphere: longitudes go round."""

    def __init__(self, before, after):
        super().__init__()
        self.conv = nn.Conv2d(before, after, 3)

    def forward(self, x):
        x = nn.functional.pad(x, (1, 1, 0, 0), mode="circular")
        return self.conv(nn.functional.pad(x, (0, 0, 1, 1)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.first, self.second = nn.GroupNorm(8, WIDTH), Wrapped(WIDTH, 2 * WIDTH), nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x):
        a, b = self.first(self.norm(x)).chunk(2, 1)
        return x + self.second(a * torch.sigmoid(b))


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if FIXED else block(x)
        return x


class Weather(nn.Module):
    def __init__(self, checkpointing):
        super().__init__()
        self.encode, self.trunk, self.decode = nn.Conv2d(FIELDS, WIDTH, 1), Trunk(), nn.Conv2d(WIDTH, FIELDS, 1)
        self.checkpointing = checkpointing

    def forward(self, state):
        x = self.encode(state)
        x = checkpoint(self.trunk, x, use_reentrant=False) if self.checkpointing else self.trunk(x)
        return state + self.decode(x)


def latitude_weights():
    weights = torch.linspace(-89, 89, GRID[0]).deg2rad().cos()
    return (weights / weights.mean()).view(1, 1, -1, 1).cuda()


def main(steps=4):
    model = Weather(checkpointing=not FIXED).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=1e-2)
    weights = latitude_weights()
    for step in range(steps):
        now, later = torch.rand(2, FIELDS, *GRID).cuda(), torch.rand(2, FIELDS, *GRID).cuda()
        loss = (weights * (model(now) - later) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())


main()
