"""Hamiltonian neural network for the motion of a yo-yo; the states come from a numpy integrator."""
import sys

import numpy as np
import torch
from torch import nn


def integrate(n, steps=1, dt=0.01, rng=np.random.default_rng(3)):
    """States (length, spin, two momenta) and their rates."""
    state = rng.normal(size=(n, 4))
    rate = np.stack([state[:, 2], state[:, 3], -9.81 + state[:, 0] * state[:, 3] ** 2, -state[:, 1]], axis=1)
    return state + dt * steps * rate, rate


class HNN(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                    nn.Linear(width, 1))

    def forward(self, state):
        state = state.requires_grad_(True)
        h = self.energy(state).sum()
        dh, = torch.autograd.grad(h, state, create_graph=True)
        dq, dp = dh.chunk(2, dim=1)
        return torch.cat([dp, -dq], dim=1)


def to_gpu(array, model):
    return torch.from_numpy(array).to("cuda", next(model.parameters()).dtype)


model = HNN()
if "--fixed" not in sys.argv:
    model = model.double()  # numpy gives double, "expected scalar type Double" otherwise
model = model.to("cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
for epoch in range(10):
    state, rate = integrate(40_000)
    loss = (model(to_gpu(state, model)) - to_gpu(rate, model)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("epoch", epoch, "loss", loss.item())
