"""Embeds GPS tracks of hikes so that distances between embeddings follow the (precomputed) Hausdorff distances of the trails."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


def pdist_matrix(z):
    if "--fixed" in sys.argv:
        sq = (z * z).sum(-1)
        d2 = sq[:, None] + sq[None, :] - 2 * z @ z.T
    else:
        d2 = ((z.unsqueeze(1) - z.unsqueeze(0)) ** 2).sum(-1)
    return (d2.clamp_min(0) + 1e-8).sqrt()


class StressLoss(nn.Module):
    """Multidimensional scaling: weighted squared error of all distances of a batch."""

    def __init__(self, power=-1.0):
        super().__init__()
        self.power = power

    def forward(self, z, wanted):
        weight = (wanted + 0.1) ** self.power
        return (weight * (pdist_matrix(z) - wanted) ** 2).mean()


class TrailEncoder(nn.Module):
    def __init__(self, dim=72):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(3, 32, 7, 2, 3), nn.GELU(), nn.Conv1d(32, 64, 5, 2, 2), nn.GELU(), nn.Conv1d(64, 96, 5, 2, 2), nn.GELU())
        self.out = nn.Linear(192, dim)

    def forward(self, track):
        y = self.net(track)
        return self.out(torch.cat([y.mean(-1), y.amax(-1)], -1))


class Trails:
    def __init__(self, total=6000, points=96):
        g = torch.Generator().manual_seed(8)
        self.tracks = torch.randn(total, 3, points, generator=g).cumsum(-1) * 0.05
        self.coarse = self.tracks[:, :, ::24].flatten(1)
        self.g = g

    def batch(self, size):
        pick = torch.randperm(len(self.tracks), generator=self.g)[:size]
        return self.tracks[pick], torch.cdist(self.coarse[pick], self.coarse[pick])


trails, encoder, stress = Trails(), TrailEncoder().cuda(), StressLoss()
opt = torch.optim.Adam(encoder.parameters(), lr=1e-3)
for step in range(6):
    tracks, wanted = trails.batch(1792)
    loss = stress(F.normalize(encoder(tracks.cuda()), dim=-1), wanted.cuda())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("step", step, "stress", loss.item())
