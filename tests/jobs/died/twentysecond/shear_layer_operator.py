"""Learned time stepper for a shear layer (u, v, pressure), trained on trajectories of a solver."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
HORIZON, GRID = 12, 160


class Stepper(nn.Module):
    """One step of the solver: a residual net with periodic padding."""

    def __init__(self, width=40, depth=4):
        super().__init__()
        self.lift = nn.Conv2d(3, width, 3, padding=1, padding_mode="circular")
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(8, width), nn.GELU(), nn.Conv2d(width, width, 3, padding=1, padding_mode="circular"))
            for _ in range(depth))
        self.drop = nn.Conv2d(width, 3, 1)

    def forward(self, u):
        h = self.lift(u)
        for block in self.blocks:
            h = h + block(h)
        return u + 0.1 * self.drop(h)


def trajectory(batch, g):
    start = torch.randn(batch, 1, 3, GRID, GRID, generator=g)
    drift = torch.linspace(0, 1, HORIZON + 1)[None, :, None, None, None]
    return start * (1 - drift) + drift * start.roll(8, -1)


def unrolled(model, truth, criterion):
    """The loss over the horizon, from the model's own states."""
    state, total = truth[:, 0], 0.0
    for k in range(1, HORIZON + 1):
        state = model(state)
        total = total + criterion(state, truth[:, k]) / HORIZON
    total.backward()
    return total.item()


def pushed_forward(model, truth, criterion):
    state, total = truth[:, 0], 0.0
    for k in range(1, HORIZON + 1):
        state = model(state.detach())
        loss = criterion(state, truth[:, k]) / HORIZON
        loss.backward()
        total += loss.item()
    return total


def main():
    g = torch.Generator().manual_seed(8)
    model = Stepper().cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    learn = pushed_forward if FIXED else unrolled
    for step in range(6):
        opt.zero_grad(set_to_none=True)
        loss = learn(model, trajectory(3, g).cuda(), nn.functional.mse_loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        print(f"{step:3d}  {loss:.5f}")


main()
