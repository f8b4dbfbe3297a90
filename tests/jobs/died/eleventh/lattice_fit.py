"""Fits the stiffness of a lattice of springs to filmed movements: simulates sixty steps, compares, and follows the gradient with Adam."""
import sys
from dataclasses import dataclass, field

import torch


@dataclass
class Setting:
    width: int = 192
    height: int = 192
    steps: int = 60
    dt: float = 0.01
    iterations: int = 8
    lr: float = 0.05
    fixed: bool = field(default_factory=lambda: "--fixed" in sys.argv)


class Lattice(torch.nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.across = torch.nn.Parameter(torch.full((s.height, s.width - 1, 1), 40.0))
        self.along = torch.nn.Parameter(torch.full((s.height - 1, s.width, 1), 40.0))
        self.damping = torch.nn.Parameter(torch.tensor(0.1))

    def force(self, x):
        f = torch.zeros_like(x)
        for stiffness, axis in (self.across, 1), (self.along, 0):
            stretch = stiffness * x.diff(dim=axis)
            zero = torch.zeros_like(x.narrow(axis, 0, 1))
            f = f + torch.cat([stretch, zero], axis) - torch.cat([zero, stretch], axis)
        return f

    def simulate(self, x, v):
        seen = []
        for n in range(self.s.steps):
            v = v + self.s.dt * (self.force(x) - self.damping * v)
            x = x + self.s.dt * v
            if n % 10 == 9:
                seen.append(x[::4, ::4])
        return torch.stack(seen)


def film(s):
    return torch.zeros(s.steps // 10, (s.height + 3) // 4, (s.width + 3) // 4, 2, device="cuda")


def smoothness(model):
    return model.across.diff(dim=0).square().mean() + model.along.diff(dim=1).square().mean()


def fit(s):
    model = Lattice(s).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=s.lr)
    filmed = film(s)
    x0 = torch.randn(s.height, s.width, 2).cuda() * 0.01
    v0 = torch.zeros_like(x0)
    history = []
    for iteration in range(s.iterations):
        optimizer.zero_grad()
        error = (model.simulate(x0, v0) - filmed).square().mean()
        loss = error + 1e-4 * smoothness(model)
        if s.fixed:
            loss.backward()
            history.append(loss.item())
        else:
            loss.backward(retain_graph=True)
            history.append(loss)
        optimizer.step()
        print("iteration", iteration, "loss", float(history[-1]))
    return model, history


if __name__ == "__main__":
    setting = Setting()
    model, history = fit(setting)
    print("mean stiffness", float(model.across.detach().mean()), "best loss", float(min(map(float, history))))
