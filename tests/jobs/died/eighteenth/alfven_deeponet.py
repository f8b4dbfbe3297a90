"""DeepONet as a surrogate of a solver for Alfven waves: profile of the field in, displacement at (x, t) out."""
import math
import sys

import torch
import torch.nn as nn

SENSORS, POINTS = 128, 2048


def solver_output(functions, seed):
    """What the Fortran code writes: everything in double precision."""
    g = torch.Generator().manual_seed(seed)
    phase = torch.rand(functions, 1, generator=g, dtype=torch.float64) * math.pi
    grid = torch.linspace(0, 1, SENSORS, dtype=torch.float64)
    where = torch.rand(functions, POINTS, 2, generator=g, dtype=torch.float64)
    field = torch.sin(2 * math.pi * grid + phase)
    moved = torch.sin(math.pi * where[..., 0]) * torch.cos(math.pi * where[..., 1] + phase)
    return field, where, moved


class FourierFeatures(nn.Module):
    def __init__(self, count=64):
        super().__init__()
        self.register_buffer("frequencies", torch.randn(2, count) * 3)

    def forward(self, where):
        angle = where @ self.frequencies
        return torch.cat([angle.sin(), angle.cos()], -1)


def mlp(sizes):
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class DeepONet(nn.Module):
    def __init__(self, width=256, basis=128):
        super().__init__()
        self.branch = mlp([SENSORS, width, width, basis])
        self.features = FourierFeatures()
        self.trunk = mlp([128, width, width, width, width, basis])
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, field, where):
        return torch.einsum("fb,fpb->fp", self.branch(field), self.trunk(self.features(where))) + self.bias


def main():
    model = DeepONet().cuda()
    if "--fixed" in sys.argv:
        precision = torch.float32
    else:
        precision = torch.float64
        model = model.double()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    for epoch in range(10):
        field, where, moved = (t.to("cuda", precision) for t in solver_output(96, epoch))
        error = (model(field, where) - moved).square().mean(1) / moved.square().mean(1)
        loss = error.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if epoch % 3 == 0:
            print("epoch", epoch, "relative error", loss.item() ** 0.5 if loss.item() > 0 else 0.0)


if __name__ == "__main__":
    main()
