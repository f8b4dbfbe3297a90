"""Deep SVDD on spindle acceleration: learns the normal state of a lathe, and watches the score of a reference recording meanwhile."""
import sys

import torch
from torch import nn


class SpindleEncoder(nn.Module):
    def __init__(self, channels=3, rep=32):
        super().__init__()
        sizes = [channels, 32, 48, 64, 96]
        self.layers = nn.ModuleList(nn.Conv1d(a, b, 9, stride=2, padding=4, bias=False) for a, b in zip(sizes, sizes[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm1d(b, affine=False) for b in sizes[1:])
        self.project = nn.Linear(sizes[-1], rep, bias=False)

    def forward(self, x):
        for conv, norm in zip(self.layers, self.norms):
            x = nn.functional.leaky_relu(norm(conv(x)), 0.1)
        return self.project(x.mean(-1))


class ChatterMonitor:
    def __init__(self):
        self.g = torch.Generator().manual_seed(99)
        self.encoder = SpindleEncoder().cuda()
        self.optimizer = torch.optim.Adam(self.encoder.parameters(), lr=1e-4, weight_decay=1e-6)
        self.reference = self.windows(48).cuda()
        with torch.no_grad():
            self.center = self.encoder(self.reference).mean(0)
        self.reference_curve = []

    def windows(self, n):
        return torch.randn(n, 3, 8192, generator=self.g)

    def score(self, x):
        return (self.encoder(x) - self.center).pow(2).sum(-1)

    def step(self, batch):
        loss = self.score(batch.cuda()).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        level = self.score(self.reference).quantile(0.95)
        self.reference_curve.append(level.item() if "--fixed" in sys.argv else level)
        return loss.item()

    def fit(self, steps=20):
        for i in range(steps):
            print("step", i, "svdd", self.step(self.windows(48)))
        curve = [float(v) for v in self.reference_curve]
        print("reference went from", curve[0], "to", curve[-1])


ChatterMonitor().fit()
