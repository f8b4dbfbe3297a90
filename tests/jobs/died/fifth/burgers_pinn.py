"""Solves Burgers' equation with a physics-informed network; the residual comes from automatic differentiation."""
import math
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
NU, POINTS = 0.01 / math.pi, 3000


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x)


class Solution(nn.Module):
    def __init__(self, width=256, depth=6):
        super().__init__()
        sizes = [2] + [width] * depth
        layers = []
        for a, b in zip(sizes, sizes[1:]):
            layers += [nn.Linear(a, b), Sine()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, t, x):
        return self.net(torch.cat([t, x], 1))


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def residual(model, t, x):
    t.requires_grad_(True)
    x.requires_grad_(True)
    u = model(t, x)
    u_x = derivative(u, x)
    return derivative(u, t) + u * u_x - NU * derivative(u_x, x)


def main():
    torch.manual_seed(0)
    model = Solution().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    start_x = torch.linspace(-1, 1, 500)[:, None].cuda()
    start_u = -torch.sin(math.pi * start_x)
    edge_t = torch.rand(500, 1).cuda()
    for step in range(6):
        t, x = torch.rand(POINTS, 1).cuda(), (2 * torch.rand(POINTS, 1) - 1).cuda()
        inside = residual(model, t, x).pow(2).mean()
        start = (model(torch.zeros_like(start_x), start_x) - start_u).pow(2).mean()
        edge = model(edge_t, torch.ones_like(edge_t)).pow(2).mean() + model(edge_t, -torch.ones_like(edge_t)).pow(2).mean()
        loss = inside + start + edge
        optimizer.zero_grad()
        if FIXED:
            loss.backward()
        else:
            loss.backward(create_graph=True)
        optimizer.step()
        print("step", step, "loss", loss.item())


main()
