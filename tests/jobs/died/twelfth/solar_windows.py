"""Forecasts the power of solar parks a day ahead with an N-BEATS-like network on windows of all parks' histories."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

PARKS, HOURS, PAST, AHEAD = 40, 6000, 336, 24
DEVICE = torch.device("cuda")


class Windows(Dataset):
    """All windows of the past, with the day after each."""

    def __init__(self, series, fixed):
        if fixed:
            self.series = series
        else:
            pairs = [row.to(DEVICE).unfold(0, PAST + AHEAD, 2) for row in series]
            self.windows = torch.cat(pairs)
        self.fixed, self.each = fixed, (HOURS - PAST - AHEAD) // 2 + 1

    def __len__(self):
        return PARKS * self.each

    def __getitem__(self, n):
        if self.fixed:
            start = n % self.each * 2
            window = self.series[n // self.each, start:start + PAST + AHEAD]
        else:
            window = self.windows[n]
        return window[:PAST], window[PAST:]


class Stack(nn.Module):
    def __init__(self, width=384):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(PAST, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.back, self.ahead = nn.Linear(width, PAST), nn.Linear(width, AHEAD)

    def forward(self, x):
        h = self.body(x)
        return x - self.back(h), self.ahead(h)


class NBeats(nn.Module):
    def __init__(self, stacks=6):
        super().__init__()
        self.stacks = nn.ModuleList(Stack() for _ in range(stacks))

    def forward(self, x):
        total = 0
        for stack in self.stacks:
            x, part = stack(x)
            total = total + part
        return total


def main():
    generator = torch.Generator().manual_seed(0)
    data = Windows(torch.rand(PARKS, HOURS, generator=generator), "--fixed" in sys.argv)
    model = NBeats().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (past, future) in enumerate(DataLoader(data, batch_size=256, shuffle=True)):
        loss = (model(past.to(DEVICE)) - future.to(DEVICE)).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
        if step == 8:
            break


main()
