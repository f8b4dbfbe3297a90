"""Nowcast of hail from radar volumes with a residual U-Net; the last epochs' weights are averaged in the end."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
EPOCHS = 14


class Res(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.a, self.b = nn.Conv2d(a, b, 3, padding=1), nn.Conv2d(b, b, 3, padding=1)
        self.n1, self.n2 = nn.GroupNorm(8, b), nn.GroupNorm(8, b)
        self.s = nn.Conv2d(a, b, 1)

    def forward(self, x):
        return F.silu(self.n2(self.b(F.silu(self.n1(self.a(x))))) + self.s(x))


class ResUNet(nn.Module):
    def __init__(self, scans=8, w=(48, 96, 192, 384, 768)):
        super().__init__()
        self.down = nn.ModuleList(Res(a, b) for a, b in zip((scans,) + w[:-1], w))
        self.up = nn.ModuleList(Res(a + b, b) for a, b in zip(w[:0:-1], w[-2::-1]))
        self.out = nn.Conv2d(w[0], 6, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.avg_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for block in self.up:
            x = block(torch.cat([F.interpolate(x, scale_factor=2), skips.pop()], 1))
        return self.out(x)


class Snapshots:
    def __init__(self):
        self.models = []

    def add(self, model):
        self.models.append(copy.deepcopy(model).cpu() if FIXED else copy.deepcopy(model))

    def average(self, last=5):
        chosen = [m.state_dict() for m in self.models[-last:]]
        return {key: sum(state[key].float() for state in chosen) / len(chosen) for key in chosen[0]}


def radar(gen, n=4):
    cube = torch.rand(n, 14, 96, 96, generator=gen)
    return cube[:, :8], (cube[:, 8:] > 0.95).float()


def train():
    gen = torch.Generator().manual_seed(6)
    model, snapshots = ResUNet().cuda(), Snapshots()
    opt = torch.optim.Adam(model.parameters(), lr=2e-4)
    for epoch in range(EPOCHS):
        for _ in range(3):
            past, hail = radar(gen)
            loss = F.binary_cross_entropy_with_logits(model(past.cuda()), hail.cuda(), pos_weight=torch.tensor(9.0, device="cuda"))
            opt.zero_grad()
            loss.backward()
            opt.step()
        snapshots.add(model)
        print("epoch", epoch, "loss", loss.item())
    model.load_state_dict(snapshots.average())
    return model


train()
