"""Learns how a flock of starlings moves: a network pushes the birds, an energy distance compares with the filmed flock."""
import sys

import torch
from torch import nn


def distances_by_hand(a, b):
    return (a[:, None, :] - b[None, :, :]).pow(2).sum(-1).add(1e-8).sqrt()


distances = torch.cdist if "--fixed" in sys.argv else distances_by_hand


class EnergyDistance(nn.Module):
    def __init__(self, measure):
        super().__init__()
        self.measure = measure

    def forward(self, ours, filmed):
        between = self.measure(ours, filmed).mean()
        within = self.measure(ours, ours).mean() + self.measure(filmed, filmed).mean()
        return 2 * between - within


class Push(nn.Module):
    def __init__(self, state=12, hidden=256):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(state + 2, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, state))

    def forward(self, birds, t, wind):
        extra = torch.tensor([t, wind]).expand(len(birds), 2).to(birds.device)
        return birds + 0.05 * self.net(torch.cat([birds, extra], 1))


class Film:
    """Position, velocity, and both a second ago, of every bird that the cameras tracked."""

    def __init__(self, birds=3600, frames=10):
        g = torch.Generator().manual_seed(2024)
        self.frames = torch.randn(frames, birds, 12, generator=g)

    def pairs(self):
        for k in range(len(self.frames) - 1):
            yield k, self.frames[k], self.frames[k + 1]


def main():
    push, compare, film = Push().cuda(), EnergyDistance(distances), Film()
    optimizer = torch.optim.Adam(push.parameters(), lr=1e-3)
    for sweep in range(2):
        for k, now, after in film.pairs():
            birds = now.cuda()
            for t in range(3):
                birds = push(birds, t / 3, 0.4)
            loss = compare(birds, after.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("sweep", sweep, "energy distance", loss.item())


main()
