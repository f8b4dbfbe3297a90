"""Individual tapirs told apart by plaster casts of footprints (height maps).  Two stages: warm up with Adam and noise, then AdamW."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class TokenMix(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.a, self.b = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.across = nn.Sequential(nn.Linear(tokens, 4 * tokens), nn.GELU(), nn.Linear(4 * tokens, tokens))
        self.within = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.across(self.a(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.b(x))


class Footprints(nn.Module):
    def __init__(self, animals=62, dim=896, depth=9):
        super().__init__()
        self.patch = nn.Conv2d(1, dim, 16, 16)
        self.mix = nn.Sequential(*[TokenMix(36, dim) for _ in range(depth)])
        self.head = nn.Linear(dim, animals)

    def forward(self, casts):
        return self.head(self.mix(self.patch(casts).flatten(2).transpose(1, 2)).mean(1))


class Schedule:
    def __init__(self, net):
        self.net = net
        self.optimizers = {
            "warm": torch.optim.Adam(net.parameters(), lr=1e-3, fused=True),
            "main": torch.optim.AdamW(net.parameters(), lr=2e-4, weight_decay=0.1, fused=True),
        }
        self.g = torch.Generator().manual_seed(62)

    def stage(self, name, steps, noise):
        optimizer = self.optimizers[name]
        for step in range(steps):
            casts = torch.randn(6, 1, 96, 96, generator=self.g)
            casts = casts + noise * torch.randn(casts.shape, generator=self.g)
            animal = torch.randint(62, (6,), generator=self.g)
            loss = F.cross_entropy(self.net(casts.cuda()), animal.cuda(), label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(name, step, loss.item())
        if "--fixed" in sys.argv:
            del self.optimizers[name]


def main():
    schedule = Schedule(Footprints().cuda())
    schedule.stage("warm", 5, noise=0.5)
    schedule.stage("main", 5, noise=0.05)


main()
