"""Posterior of a black hole's mass and spin from its ringdown: a convolutional summary of the strain and a conditional affine flow."""
import sys

import numpy as np
import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
SAMPLES = 4096


def simulate(count, rng):
    mass, spin = rng.uniform(20, 120, count), rng.uniform(0, 0.95, count)
    t = np.linspace(0, 0.1, SAMPLES)
    frequency = 32_000 / mass * (1.525 - 1.157 * (1 - spin) ** 0.129)
    damping = frequency / (2 * (0.7 + 1.419 * (1 - spin) ** -0.499))
    strain = np.exp(-t * damping[:, None]) * np.cos(2 * np.pi * frequency[:, None] * t)
    detectors = strain[:, None, :] * np.array([1.0, -0.7])[None, :, None]
    theta = np.stack([mass / 120, spin], 1)
    return torch.from_numpy(detectors + rng.normal(0, 0.2, detectors.shape)), torch.from_numpy(theta)


class Summary(nn.Module):
    def __init__(self, width=32, out=64):
        super().__init__()
        layers, before = [], 2
        for stage in range(4):
            layers += [nn.Conv1d(before, width, 9, padding=4), nn.BatchNorm1d(width), nn.ELU(), nn.AvgPool1d(2)]
            before, width = width, width + 16
        self.net = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(8), nn.Flatten(), nn.Linear(before * 8, out))

    def forward(self, strain):
        return self.net(strain)


class Coupling(nn.Module):
    def __init__(self, flip, context=64):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1 + context, 128), nn.ELU(), nn.Linear(128, 2))

    def forward(self, z, context):
        a, b = z.flip(1).chunk(2, 1) if self.flip else z.chunk(2, 1)
        log_scale, shift = self.net(torch.cat([a, context], 1)).chunk(2, 1)
        log_scale = torch.tanh(log_scale)
        return torch.cat([a, b * log_scale.exp() + shift], 1), log_scale.squeeze(1)


class Posterior(nn.Module):
    def __init__(self):
        super().__init__()
        self.summary = Summary()
        self.couplings = nn.ModuleList(Coupling(flip=i % 2) for i in range(6))

    def forward(self, strain, theta):
        context, z, log_det = self.summary(strain), theta, 0
        for coupling in self.couplings:
            z, d = coupling(z, context)
            log_det = log_det + d
        return (0.5 * z.pow(2).sum(1) - log_det).mean()


rng = np.random.default_rng(150914)
model = Posterior().cuda()
if not FIXED:
    model = model.double()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
for step in range(10):
    strain, theta = simulate(160, rng)
    dtype = next(model.parameters()).dtype
    nll = model(strain.to("cuda", dtype), theta.to("cuda", dtype))
    optimizer.zero_grad()
    nll.backward()
    optimizer.step()
    print("step", step, "negative log posterior", nll.item())
