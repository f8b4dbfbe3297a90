"""Fourier neural operator for the electric field in a 2-D microwave cavity. The fields of the FDTD solver come as NumPy arrays."""
import sys

import numpy as np
import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv


class SpectralConv(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(2, width, width, modes, modes, 2) / width ** 2)

    def forward(self, x):
        m, w = self.modes, torch.view_as_complex(self.weight)
        f = torch.fft.rfft2(x)
        out = torch.zeros_like(f)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, :m, :m], w[0])
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, -m:, :m], w[1])
        return torch.fft.irfft2(out, s=x.shape[-2:])


class CavityFNO(nn.Module):
    def __init__(self, width=48, modes=20, depth=4):
        super().__init__()
        self.lift = nn.Conv2d(4, width, 1)
        self.spectral = nn.ModuleList(SpectralConv(width, modes) for _ in range(depth))
        self.local = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(depth))
        self.project = nn.Sequential(nn.Conv2d(width, 128, 1), nn.GELU(), nn.Conv2d(128, 2, 1))

    def forward(self, a):
        x = self.lift(a)
        for s, c in zip(self.spectral, self.local):
            x = nn.functional.gelu(s(x) + c(x))
        return self.project(x)


def fdtd_runs(n, batch=8, grid=128):
    """Permittivity, conductivity and the two coordinates; the real and imaginary part of E_z."""
    rng = np.random.default_rng(1865)
    yy, xx = np.meshgrid(np.linspace(0, 1, grid), np.linspace(0, 1, grid))
    for _ in range(n):
        material = rng.uniform(1, 6, (batch, 2, grid, grid))
        coords = np.broadcast_to(np.stack([xx, yy]), (batch, 2, grid, grid))
        yield np.concatenate([material, coords], 1), rng.standard_normal((batch, 2, grid, grid))


def relative_l2(pred, target):
    return ((pred - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)).mean()


model = CavityFNO()
if not FIXED:
    model = model.double()      # RuntimeError: expected scalar type Double but found Float
model = model.cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(2):
    for a, e in fdtd_runs(5):
        a, e = torch.from_numpy(a), torch.from_numpy(e)
        if FIXED:
            a, e = a.float(), e.float()
        loss = relative_l2(model(a.cuda()), e.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "relative error", loss.item())
