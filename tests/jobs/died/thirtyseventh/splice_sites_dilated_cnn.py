"""Donor and acceptor sites of introns by a dilated residual CNN; windows of genes for training, long stretches of chromosomes held out."""
import sys
from contextlib import nullcontext

import torch
import torch.nn as nn
import torch.nn.functional as F


class DilatedUnit(nn.Module):
    def __init__(self, channels, kernel, dilation):
        super().__init__()
        pad = dilation * (kernel - 1) // 2
        self.n1, self.c1 = nn.BatchNorm1d(channels), nn.Conv1d(channels, channels, kernel, dilation=dilation, padding=pad)
        self.n2, self.c2 = nn.BatchNorm1d(channels), nn.Conv1d(channels, channels, kernel, dilation=dilation, padding=pad)

    def forward(self, x):
        return x + self.c2(F.relu(self.n2(self.c1(F.relu(self.n1(x))))))


class SpliceNet(nn.Module):
    def __init__(self, channels=64):
        super().__init__()
        self.stem = nn.Conv1d(4, channels, 1)
        plan = [(11, 1)] * 4 + [(11, 4)] * 4 + [(21, 10)] * 4
        self.units = nn.Sequential(*[DilatedUnit(channels, k, d) for k, d in plan])
        self.head = nn.Conv1d(channels, 3, 1)

    def forward(self, bases):
        return self.head(self.units(self.stem(bases)))


def encode(sequence):
    return F.one_hot(sequence, 4).transpose(1, 2).float()


class Experiment:
    def __init__(self):
        self.rng = torch.Generator().manual_seed(23)
        self.net = SpliceNet().cuda()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.5)
        self.weights = torch.tensor([0.1, 1.0, 1.0], device="cuda")
        self.quiet = torch.no_grad if "--fixed" in sys.argv else nullcontext

    def genes(self, batches, size, length):
        for _ in range(batches):
            bases = torch.randint(0, 4, (size, length), generator=self.rng)
            sites = torch.randint(0, 3, (size, length), generator=self.rng)
            yield encode(bases).cuda(), sites.cuda()

    def fit_epoch(self):
        self.net.train()
        for bases, sites in self.genes(12, 8, 5000):
            self.opt.zero_grad()
            loss = F.cross_entropy(self.net(bases), sites, self.weights)
            loss.backward()
            self.opt.step()
        self.sched.step()
        return loss.item()

    def held_out(self):
        self.net.eval()
        total, hits, seen = 0.0, 0, 0
        with self.quiet():
            for bases, sites in self.genes(5, 4, 32000):
                logits = self.net(bases)
                total += F.cross_entropy(logits, sites, self.weights).item()
                called = logits.softmax(1)[:, 1:].sum(1) > 0.5
                hits += (called == (sites > 0)).sum().item()
                seen += sites.numel()
        return total / 5, hits / seen


experiment = Experiment()
for epoch in range(3):
    print("epoch", epoch, "train", experiment.fit_epoch(), "held out", experiment.held_out())
