"""A learned closure for a coarse flow solver of polymer foam in moulds: the network corrects each step of the solver.

For training, the solver first runs freely for some steps, so that the network sees its own errors; then the next steps are compared
with the fine simulation."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
GRID, WARMUP, COMPARED = 128, 12, 4


class Closure(nn.Module):
    def __init__(self, width=32, depth=4):
        super().__init__()
        layers = [nn.Conv2d(3, width, 5, padding=2, padding_mode="circular"), nn.SiLU()]
        for _ in range(depth):
            layers += [nn.Conv2d(width, width, 3, padding=1, padding_mode="circular"), nn.SiLU()]
        self.net = nn.Sequential(*layers, nn.Conv2d(width, 3, 3, padding=1, padding_mode="circular"))

    def forward(self, state):
        return self.net(state)


class CoarseSolver(nn.Module):
    """Velocity and filling degree: semi-Lagrangian transport, diffusion, and the correction."""

    def __init__(self, closure, dt=0.05, viscosity=0.01):
        super().__init__()
        self.closure, self.dt, self.viscosity = closure, dt, viscosity
        line = torch.linspace(-1, 1, GRID)
        y, x = torch.meshgrid(line, line, indexing="ij")
        self.register_buffer("points", torch.stack([x, y], -1))

    def transport(self, state):
        back = self.points - self.dt * state[:, :2].permute(0, 2, 3, 1)
        return F.grid_sample(state, back, padding_mode="border", align_corners=True)

    def laplacian(self, state):
        return sum(torch.roll(state, s, d) for d in (2, 3) for s in (1, -1)) - 4 * state

    def forward(self, state):
        state = self.transport(state)
        state = state + self.viscosity * self.laplacian(state)
        return state + self.dt * self.closure(state)

    def run(self, state, steps):
        for _ in range(steps):
            state = self(state)
        return state


def fine_simulation(batch, generator):
    start = torch.rand(batch, 3, GRID, GRID, generator=generator)
    return start, torch.stack([start + 0.01 * k for k in range(COMPARED)])


def train():
    generator = torch.Generator().manual_seed(2)
    solver = CoarseSolver(Closure()).cuda()
    optimizer = torch.optim.AdamW(solver.parameters(), lr=3e-4)
    for iteration in range(5):
        start, truth = fine_simulation(6, generator)
        if FIXED:
            with torch.no_grad():
                state = solver.run(start.cuda(), WARMUP)
        else:
            state = solver.run(start.cuda(), WARMUP)
        loss = 0.0
        for target in truth.cuda():
            state = solver(state)
            loss = loss + F.mse_loss(state, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(iteration, loss.item())


train()
