"""Forecasts the extent of sea ice per sector (N-HiTS); the three best epochs by validation are averaged in the end."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
HISTORY, HORIZON, SECTORS = 730, 180, 15


class Stack(nn.Module):
    def __init__(self, pool, width=1536):
        super().__init__()
        self.pool = nn.MaxPool1d(pool, pool, ceil_mode=True)
        size = -(-HISTORY // pool) * SECTORS
        self.mlp = nn.Sequential(nn.Linear(size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.back = nn.Linear(width, HISTORY // 10 * SECTORS)
        self.fore = nn.Linear(width, HORIZON // 6 * SECTORS)

    def forward(self, x):
        h = self.mlp(self.pool(x).flatten(1))
        back = self.back(h).view(len(x), SECTORS, -1)
        fore = self.fore(h).view(len(x), SECTORS, -1)
        return F.interpolate(back, size=HISTORY, mode="linear"), F.interpolate(fore, size=HORIZON, mode="linear")


class NHits(nn.Module):
    def __init__(self, pools=(8, 4, 2)):
        super().__init__()
        self.stacks = nn.ModuleList(Stack(p) for p in pools)

    def forward(self, x):
        forecast = 0
        for stack in self.stacks:
            back, fore = stack(x)
            x, forecast = x - back, forecast + fore
        return forecast


class BestOf:
    """Keeps track of the epochs, and gives back the mean of the best ones."""

    def __init__(self, keep=3):
        self.keep, self.epochs = keep, []

    def add(self, score, model):
        state = model.state_dict()
        if FIXED:
            state = {k: v.cpu() for k, v in state.items()}
        self.epochs.append((score, len(self.epochs), copy.deepcopy(state)))

    def mean(self):
        best = [s for _, _, s in sorted(self.epochs, key=lambda e: e[:2])[:self.keep]]
        return {k: sum(s[k].cpu() for s in best) / len(best) for k in best[0]}


def windows(n, seed):
    g = torch.Generator().manual_seed(seed)
    series = torch.randn(n, SECTORS, HISTORY + HORIZON, generator=g)
    return series[..., :HISTORY].cuda(), series[..., HISTORY:].cuda()


def main():
    torch.manual_seed(1979)
    model, tracker = NHits().cuda(), BestOf()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(14):
        model.train()
        for batch in range(3):
            past, future = windows(64, 100 * epoch + batch)
            loss = F.l1_loss(model(past), future)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            past, future = windows(64, 9999)
            score = F.l1_loss(model(past), future).item()
        tracker.add(score, model)
        print("epoch", epoch, "validation", score)
    model.load_state_dict(tracker.mean())


main()
