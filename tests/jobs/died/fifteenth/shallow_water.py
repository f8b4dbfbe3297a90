"""A convolutional surrogate of the shallow water equations: one step ahead in training, and a rollout as a figure of merit."""
import sys

import torch
import torch.nn as nn

DETACH = "--fixed" in sys.argv


class PeriodicConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 5, padding=2, padding_mode="circular")

    def forward(self, x):
        return nn.functional.silu(self.conv(x))


class Surrogate(nn.Module):
    """State: height, two velocities. Predicts the change during one second."""

    def __init__(self, width=32, depth=4):
        super().__init__()
        self.layers = nn.Sequential(PeriodicConv(3, width), *[PeriodicConv(width, width) for _ in range(depth)], nn.Conv2d(width, 3, 1))

    def forward(self, state):
        return state + 0.1 * self.layers(state)


class Monitor:
    """Exponential mean of the error after a rollout; tells earlier than the loss when training goes astray."""

    def __init__(self, beta=0.9, horizon=4):
        self.beta, self.horizon, self.value = beta, horizon, None

    def update(self, model, trajectory):
        state = trajectory[:, 0]
        for _ in range(self.horizon):
            state = model(state)
        error = (state - trajectory[:, self.horizon]).square().mean().sqrt()
        if DETACH:
            error = error.detach()
        self.value = error if self.value is None else self.beta * self.value + (1 - self.beta) * error


def trajectories(batch, length, n=96):
    g = torch.Generator().manual_seed(99)
    while True:
        start = torch.randn(batch, 1, 3, n, n, generator=g)
        yield torch.cat([start.roll(i, -1) for i in range(length)], 1).cuda()


model = Surrogate().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
monitor, source = Monitor(), trajectories(8, 6)
for it in range(14):
    trajectory = next(source)
    now, after = trajectory[:, :-1].flatten(0, 1), trajectory[:, 1:].flatten(0, 1)
    loss = nn.functional.mse_loss(model(now), after)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    monitor.update(model, trajectory)
    if it % 5 == 4:
        print(it, loss.item(), monitor.value.item())
