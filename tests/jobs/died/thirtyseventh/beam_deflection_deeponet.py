"""DeepONet for the deflection of beams on elastic foundations; loads and solutions come from our finite-difference code as numpy arrays."""
import sys

import numpy as np
import torch
import torch.nn as nn

POINTS, SENSORS, BEAMS = 400, 100, 512


def finite_differences(rng):
    """Loads (BEAMS x SENSORS), grid and deflections (BEAMS x POINTS). The solver proper is in Fortran; this has its shapes."""
    loads = rng.normal(size=(BEAMS, SENSORS))
    x = np.linspace(0.0, 1.0, POINTS)
    modes = np.sin(np.outer(np.arange(1, 9) * np.pi, x))
    return loads, x[:, None], loads[:, :8] @ modes / np.arange(1, 9).sum()


def mlp(sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class DeepONet(nn.Module):
    def __init__(self, p=128):
        super().__init__()
        self.branch, self.trunk = mlp([SENSORS, 256, 256, p]), mlp([1 + 4, 128, 128, 128, 128, p])
        self.stiffness = nn.Linear(SENSORS, 4)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, loads, x):
        # the foundation's stiffness goes into the trunk, so that the trunk differs from beam to beam
        extra = self.stiffness(loads)[:, None].expand(-1, len(x), -1)
        place = x.expand(len(loads), -1, -1)
        basis = self.trunk(torch.cat([place, extra], -1))
        return torch.einsum("bp,bnp->bn", self.branch(loads), basis) + self.bias


loads, grid, deflection = map(torch.from_numpy, finite_differences(np.random.default_rng(6)))
net = DeepONet().cuda()
if "--fixed" in sys.argv:
    loads, grid, deflection = loads.float(), grid.float(), deflection.float()
else:
    net = net.double()  # RuntimeError: mat1 and mat2 must have the same dtype
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
grid = grid.cuda()
for epoch in range(4):
    for rows in torch.randperm(BEAMS, generator=torch.Generator().manual_seed(epoch)).split(256):
        wanted = deflection[rows].cuda()
        error = net(loads[rows].cuda(), grid) - wanted
        loss = error.square().mean() / wanted.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    print("epoch", epoch, "relative error", loss.item())
