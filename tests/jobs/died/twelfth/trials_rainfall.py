"""Searches settings of a network that turns radar images into rain; every trial trains a few steps, and the table of trials is printed in the end."""
import itertools
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
GRID = {"width": [384, 512], "depth": [3, 4], "lr": [1e-3, 3e-4], "dropout": [0.0, 0.2]}


class RainNet(nn.Module):
    def __init__(self, width, depth, dropout):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(4, 64, 4, 4), nn.GELU(), nn.Conv2d(64, width, 2, 2))
        self.body = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(width), nn.Conv2d(width, width, 3, padding=1), nn.GELU(), nn.Dropout2d(dropout),
                                                nn.Conv2d(width, width, 3, padding=1)) for _ in range(depth))
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, radar):
        x = self.stem(radar)
        for layer in self.body:
            x = x + layer(x)
        return self.out(x).exp().squeeze(1)


class Trial:
    def __init__(self, width, depth, lr, dropout):
        self.settings = {"width": width, "depth": depth, "lr": lr, "dropout": dropout}
        self.model = RainNet(width, depth, dropout).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.score = None

    def run(self, steps=4):
        for _ in range(steps):
            radar, rain = torch.rand(8, 4, 128, 128).cuda(), torch.rand(8, 16, 16).cuda()
            loss = nn.functional.poisson_nll_loss(self.model(radar), rain, log_input=False)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.score = loss.item()
        return self


def search():
    trials = []
    for values in itertools.product(*GRID.values()):
        trial = Trial(**dict(zip(GRID, values))).run()
        if FIXED:
            trial.model = trial.optimizer = None
        trials.append(trial)
    return sorted(trials, key=lambda t: t.score)


for place, trial in enumerate(search()):
    print(place, trial.score, trial.settings)
