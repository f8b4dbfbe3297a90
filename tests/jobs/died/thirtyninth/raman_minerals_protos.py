"""Raman spectra of minerals: a 1D ResNet whose classes are given by moving class means of a clean support set."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
N_MINERALS, SHOTS, POINTS = 24, 6, 1800
gen = torch.Generator().manual_seed(2024)


def spectra(labels):
    x = torch.linspace(0, 1, POINTS)
    peaks = labels.float()[:, None] / N_MINERALS
    noise = 0.05 * torch.randn(len(labels), POINTS, generator=gen)
    return (torch.exp(-((x - peaks) ** 2) / 0.001) + noise)[:, None]


class Residual(nn.Module):
    def __init__(self, c, stride=1):
        super().__init__()
        self.a = nn.Conv1d(c, c, 9, stride, 4)
        self.b = nn.Conv1d(c, c, 9, 1, 4)
        self.na, self.nb = nn.GroupNorm(8, c), nn.GroupNorm(8, c)
        self.pool = nn.AvgPool1d(stride, ceil_mode=True)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.na(self.a(x)))
        return torch.nn.functional.gelu(self.nb(self.b(h)) + self.pool(x))


class SpectrumEncoder(nn.Module):
    def __init__(self, c=64, dim=128):
        super().__init__()
        self.stem = nn.Conv1d(1, c, 15, 2, 7)
        self.body = nn.Sequential(Residual(c), Residual(c, 2), Residual(c), Residual(c, 2), Residual(c))
        self.proj = nn.Linear(c, dim)

    def forward(self, x):
        return nn.functional.normalize(self.proj(self.body(self.stem(x)).mean(-1)), dim=-1)


class ClassMeans(nn.Module):
    """Exponential moving average of the mean embedding of each mineral."""

    def __init__(self, dim=128, momentum=0.95):
        super().__init__()
        self.register_buffer("means", nn.functional.normalize(torch.randn(N_MINERALS, dim, generator=gen), dim=-1))
        self.momentum = momentum

    def update(self, embeddings):
        if FIXED:
            embeddings = embeddings.detach()
        fresh = embeddings.view(N_MINERALS, SHOTS, -1).mean(1)
        self.means = self.momentum * self.means + (1 - self.momentum) * fresh

    def scores(self, queries, temperature=0.1):
        return queries @ self.means.detach().t() / temperature


encoder, means = SpectrumEncoder().cuda(), ClassMeans().cuda()
optim = torch.optim.AdamW(encoder.parameters(), lr=1e-3, weight_decay=1e-4)
support_labels = torch.arange(N_MINERALS).repeat_interleave(SHOTS)

for episode in range(16):
    support = spectra(support_labels).cuda()
    means.update(encoder(support))

    labels = torch.randint(0, N_MINERALS, (96,), generator=gen)
    loss = nn.functional.cross_entropy(means.scores(encoder(spectra(labels).cuda())), labels.cuda())
    optim.zero_grad()
    loss.backward()
    optim.step()
    print("episode", episode, "loss", loss.item())
