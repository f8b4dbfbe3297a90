"""Dates ceramics from photos with an MLP-Mixer and sharpness-aware minimisation, the optimizer wrapped by our own class."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv


class Mixer(nn.Module):
    def __init__(self, patches=64, width=768, between=(256, 3072)):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.patches = nn.Sequential(nn.Linear(patches, between[0]), nn.GELU(), nn.Linear(between[0], patches))
        self.channels = nn.Sequential(nn.Linear(width, between[1]), nn.GELU(), nn.Linear(between[1], width))

    def forward(self, x):
        x = x + self.patches(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class MLPMixer(nn.Module):
    def __init__(self, periods=30, depth=10):
        super().__init__()
        self.stem = nn.Conv2d(3, 768, 16, 16)
        self.blocks = nn.Sequential(*[Mixer() for _ in range(depth)])
        self.head = nn.Linear(768, periods)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x).flatten(2).transpose(1, 2)).mean(1))


class SAM:
    """Goes up to the worst place nearby, and down from there."""

    def __init__(self, parameters, base, rho=0.05):
        self.parameters, self.base, self.rho = list(parameters), base, rho
        self.old, self.first, self.up = [], [], []

    @torch.no_grad()
    def ascend(self):
        norm = torch.stack([p.grad.norm() for p in self.parameters]).norm() + 1e-12
        if FIXED:  # the step up is the gradient itself, scaled in place; another backward pass makes new ones
            self.up = []
            for p in self.parameters:
                self.up.append(p.grad.mul_(self.rho / norm))
                p.add_(self.up[-1])
        else:
            self.old = [p.detach().clone() for p in self.parameters]
            self.first = [p.grad.detach().clone() for p in self.parameters]
            self.up = [g * (self.rho / norm) for g in self.first]
            for p, e in zip(self.parameters, self.up):
                p.add_(e)
        self.base.zero_grad()

    @torch.no_grad()
    def descend(self):
        for n, p in enumerate(self.parameters):
            if FIXED:
                p.sub_(self.up[n])
            else:
                p.copy_(self.old[n])
        if FIXED:
            self.up = []
        self.base.step()
        self.base.zero_grad()


def main(steps=5, batch=8):
    model = MLPMixer().cuda()
    sam = SAM(model.parameters(), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False))
    criterion = nn.CrossEntropyLoss()
    for step in range(steps):
        x, y = torch.rand(batch, 3, 128, 128).cuda(), torch.randint(0, 30, (batch,)).cuda()
        loss = criterion(model(x), y)
        loss.backward()
        sam.ascend()
        criterion(model(x), y).backward()
        sam.descend()
        print("step", step, "loss", loss.item())


main()
