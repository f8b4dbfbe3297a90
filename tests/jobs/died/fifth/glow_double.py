"""Learns the density of detector images of a physics experiment with a normalising flow of affine couplings."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class ActNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.shift, self.log_scale = nn.Parameter(torch.zeros(1, channels, 1, 1)), nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x):
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum() * x.shape[2] * x.shape[3]


class Mix(nn.Module):
    """An orthogonal mixture of channels, whose determinant is one."""

    def __init__(self, channels):
        super().__init__()
        self.register_buffer("matrix", torch.linalg.qr(torch.randn(channels, channels))[0])

    def forward(self, x):
        return F.conv2d(x, self.matrix[:, :, None, None])


class Coupling(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(channels // 2, hidden, 3, padding=1), nn.ReLU(), nn.Conv2d(hidden, hidden, 1), nn.ReLU(),
                                 nn.Conv2d(hidden, channels, 3, padding=1))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        log_s, t = self.net(a).chunk(2, 1)
        s = torch.sigmoid(log_s + 2)
        return torch.cat([a, (b + t) * s], 1), s.log().sum((1, 2, 3))


class Flow(nn.Module):
    def __init__(self, levels=3, steps=6, hidden=160):
        super().__init__()
        self.levels = nn.ModuleList()
        channels = 1
        for _ in range(levels):
            channels *= 4
            self.levels.append(nn.ModuleList(nn.ModuleList([ActNorm(channels), Mix(channels), Coupling(channels, hidden)]) for _ in range(steps)))

    def log_prob(self, x):
        total = 0
        for level in self.levels:
            x = F.pixel_unshuffle(x, 2)
            for norm, mix, coupling in level:
                x, a = norm(x)
                x, b = coupling(mix(x))
                total = total + a + b
        return total - 0.5 * (x.pow(2) + math.log(2 * math.pi)).sum((1, 2, 3))


def train(model, dtype, batches):
    model.to("cuda", dtype)
    optimizer = torch.optim.Adamax(model.parameters(), lr=1e-3)
    for step in range(batches):
        events = torch.zeros(24, 1, 64, 64).to("cuda", dtype)
        loss = -model.log_prob(events).mean() / 64 ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, "nats per pixel", loss.item())


# the log determinants were nan in the first runs
train(Flow(), torch.float32 if FIXED else torch.float64, 6)
