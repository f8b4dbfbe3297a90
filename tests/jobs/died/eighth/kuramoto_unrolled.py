"""Learns a correction to a coarse solver of the Kuramoto-Sivashinsky equation by unrolling it in time (solver in the loop)."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Plan:
    points: int = 256
    batch: int = 32
    unrolled: int = 160
    cut_after: int = 20 if "--fixed" in sys.argv else 0
    dt: float = 0.02
    steps: int = 3


class Correction(nn.Module):
    def __init__(self, width=32, depth=4):
        super().__init__()
        layers = [nn.Conv1d(1, width, 5, padding=2, padding_mode="circular"), nn.GELU()]
        for _ in range(depth - 2):
            layers += [nn.Conv1d(width, width, 5, padding=2, padding_mode="circular"), nn.GELU()]
        self.net = nn.Sequential(*layers, nn.Conv1d(width, 1, 5, padding=2, padding_mode="circular"))

    def forward(self, u):
        return self.net(u)


def derivative(u):
    left, right = torch.roll(u, 1, -1), torch.roll(u, -1, -1)
    second = left - 2 * u + right
    fourth = torch.roll(second, 1, -1) - 2 * second + torch.roll(second, -1, -1)
    return -0.25 * (right ** 2 - left ** 2) - second - fourth


def trajectory(net, u, truth, plan):
    """Errors along the way; with a cut, gradients flow through that many solver steps only."""
    error, total = 0.0, 0.0
    for n in range(plan.unrolled):
        u = u + plan.dt * derivative(u)
        u = u + plan.dt * net(u)
        error = error + (u - truth[n % len(truth)]).square().mean()
        if plan.cut_after and (n + 1) % plan.cut_after == 0:
            (error / plan.unrolled).backward()
            total += error.item()
            error, u = 0.0, u.detach()
    if torch.is_tensor(error):
        (error / plan.unrolled).backward()
        total += error.item()
    return total / plan.unrolled


def main(plan):
    net = Correction().to("cuda")
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    truth = torch.zeros(8, plan.batch, 1, plan.points).to("cuda")
    for step in range(plan.steps):
        start = torch.randn(plan.batch, 1, plan.points).to("cuda")
        optimizer.zero_grad()
        error = trajectory(net, start, truth, plan)
        optimizer.step()
        print(step, error)


main(Plan())
