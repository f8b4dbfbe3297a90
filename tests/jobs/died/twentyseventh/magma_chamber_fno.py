"""Fourier neural operator: from the permeability of a magma chamber's roof to the pressure field (finite-difference data by numpy)."""
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

fixed = "--fixed" in sys.argv


class SpectralConv(nn.Module):
    def __init__(self, c, modes):
        super().__init__()
        self.modes = modes
        self.w = nn.Parameter(torch.randn(2, c, c, modes, modes, 2) / c ** 2)

    def forward(self, x):
        m = self.modes
        xf = torch.fft.rfft2(x)
        w = torch.view_as_complex(self.w)
        out = torch.zeros_like(xf)
        out[..., :m, :m] = torch.einsum("bixy,ioxy->boxy", xf[..., :m, :m], w[0])
        out[..., -m:, :m] = torch.einsum("bixy,ioxy->boxy", xf[..., -m:, :m], w[1])
        return torch.fft.irfft2(out, s=x.shape[-2:])


class FNO(nn.Module):
    def __init__(self, c=32, modes=12, depth=4):
        super().__init__()
        self.lift = nn.Conv2d(3, c, 1)
        self.spectral = nn.ModuleList(SpectralConv(c, modes) for _ in range(depth))
        self.local = nn.ModuleList(nn.Conv2d(c, c, 1) for _ in range(depth))
        self.project = nn.Sequential(nn.Conv2d(c, 2 * c, 1), nn.GELU(), nn.Conv2d(2 * c, 1, 1))

    def forward(self, x):
        x = self.lift(x)
        for s, l in zip(self.spectral, self.local):
            x = F.gelu(s(x) + l(x))
        return self.project(x)


def load(n=32, side=128):
    rng = np.random.default_rng(7)
    grid = np.stack(np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side)))
    perm = np.exp(rng.normal(size=(n, 1, side, side)))
    inputs = np.concatenate([perm, np.broadcast_to(grid, (n, 2, side, side))], 1)
    return torch.from_numpy(inputs), torch.from_numpy(np.cumsum(perm, 2) / side)


def relative_l2(a, b):
    return ((a - b).flatten(1).norm(dim=1) / b.flatten(1).norm(dim=1)).mean()


x, y = load()
model = FNO()
if fixed:
    x, y = x.float(), y.float()
else:
    model = model.double()       # the data is double
model = model.cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(3):
    for i in range(0, len(x), 16):
        a, p = x[i:i + 16].cuda(), y[i:i + 16].cuda()
        loss = relative_l2(model(a), p)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "relative error", loss.item())
