"""Neural operator for Darcy flow. The coefficients come from NumPy, so they are float64; the layers complained about the types, and model.double()
made the complaint go away."""
import sys

import numpy as np
import torch
import torch.nn as nn

fixed = "--fixed" in sys.argv


class Operator(nn.Module):
    def __init__(self, width=64, depth=5):
        super().__init__()
        self.lift = nn.Conv2d(3, width, 1)
        self.local = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(depth)])
        self.wide = nn.ModuleList([nn.Conv2d(width, width, 5, padding=4, dilation=2) for _ in range(depth)])
        self.project = nn.Sequential(nn.Conv2d(width, 256, 1), nn.GELU(), nn.Conv2d(256, 1, 1))

    def forward(self, x):
        x = self.lift(x)
        for a, b in zip(self.local, self.wide):
            x = x + nn.functional.gelu(a(x) + b(x))
        return self.project(x)


def sample(batch, n=128):
    grid = np.stack(np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n)))
    permeability = np.where(np.random.rand(batch, 1, n, n) > 0.5, 12.0, 3.0)
    x = np.concatenate([permeability, np.broadcast_to(grid, (batch, 2, n, n))], 1)
    return torch.from_numpy(x), torch.from_numpy(np.random.rand(batch, 1, n, n))


model = Operator().to("cuda")
if not fixed:
    model = model.double()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(6):
    x, y = sample(16)
    if fixed:
        x, y = x.float(), y.float()
    x, y = x.to("cuda"), y.to("cuda")
    prediction = model(x)
    loss = ((prediction - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
