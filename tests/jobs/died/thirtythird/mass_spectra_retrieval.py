"""Learns a metric for tandem mass spectra: a spectrum and that of the same molecule on another instrument should be near in the L1 sense."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

BINS, DIM, BATCH = 4000, 384, 896


class SpectrumEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(BINS, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, DIM))

    def forward(self, intensities):
        return self.net(intensities.sqrt())


def distances(a, b):
    if "--fixed" in sys.argv:
        return torch.cdist(a, b, p=1)
    return (a.unsqueeze(1) - b.unsqueeze(0)).abs().sum(dim=-1)


def spectra(seed):
    g = torch.Generator().manual_seed(seed)
    orbitrap = torch.rand(BATCH, BINS, generator=g)
    qtof = (orbitrap + 0.1 * torch.rand(BATCH, BINS, generator=g)).clamp(0, 1)
    return orbitrap.cuda(), qtof.cuda()


encoder = SpectrumEncoder().cuda()
temperature = nn.Parameter(torch.tensor(0.05, device="cuda"))
optimizer = torch.optim.AdamW([*encoder.parameters(), temperature], lr=3e-4)
same = torch.arange(BATCH, device="cuda")

for step in range(10):
    first, second = spectra(step)
    d = distances(encoder(first), encoder(second))
    loss = 0.5 * (F.cross_entropy(-d * temperature, same) + F.cross_entropy(-d.t() * temperature, same))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{step:3d} contrastive {loss.item():.4f}")
