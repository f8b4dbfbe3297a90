"""Probabilistic forecasts of sea surface temperature in the tropical Pacific: 64 members, trained on the continuous ranked probability score."""
import sys

import torch
import torch.nn as nn


def crps_pairs(members, obs):
    """members [B, M, H, W], obs [B, H, W]: E|X - y| - 0.5 E|X - X'|"""
    m = members.shape[1]
    skill = (members - obs[:, None]).abs().mean(1)
    spread = (members[:, :, None] - members[:, None]).abs().sum((1, 2)) / (2 * m * (m - 1))
    return (skill - spread).mean()


def crps_sorted(members, obs):
    m = members.shape[1]
    skill = (members - obs[:, None]).abs().mean(1)
    ordered = members.sort(1).values
    rank = torch.arange(1, m + 1, device=members.device, dtype=members.dtype).view(1, m, 1, 1)
    spread = ((2 * rank - m - 1) * ordered).sum(1) / (m * (m - 1))
    return (skill - spread).mean()


crps = crps_sorted if "--fixed" in sys.argv else crps_pairs


class PeriodicConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 5, padding=2)

    def forward(self, x):
        return nn.functional.gelu(self.conv(x))


class EnsembleForecaster(nn.Module):
    """Three months of SST, thermocline depth and wind stress in; the members of the next season out."""

    def __init__(self, members=64, width=48, depth=5):
        super().__init__()
        self.encoder = nn.Sequential(PeriodicConv(12, width), *[PeriodicConv(width, width) for _ in range(depth)])
        self.members = nn.Conv2d(width, members, 1)
        self.noise_scale = nn.Parameter(torch.full((1, members, 1, 1), 0.05))

    def forward(self, x):
        mean = self.members(self.encoder(x))
        return mean + self.noise_scale * torch.randn_like(mean)


def seasons(n, batch=4, grid=(64, 176)):
    g = torch.Generator().manual_seed(1997)
    for _ in range(n):
        yield torch.randn(batch, 12, *grid, generator=g), torch.randn(batch, *grid, generator=g)


model = EnsembleForecaster().cuda()
optim = torch.optim.Adam(model.parameters(), lr=3e-4)
for epoch in range(2):
    for fields, sst in seasons(5):
        loss = crps(model(fields.cuda()), sst.cuda())
        optim.zero_grad()
        loss.backward()
        optim.step()
    print(f"epoch {epoch}: CRPS {loss.item():.4f} K")
