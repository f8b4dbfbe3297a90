"""Estimates the health of batteries from years of charge cycles: each year is a series in windows; the LSTM's state goes on from window to window."""
import argparse

import torch
from torch import nn


class Health(nn.Module):
    def __init__(self, inputs=12, hidden=384):
        super().__init__()
        self.inward = nn.Sequential(nn.Linear(inputs, 128), nn.ReLU())
        self.cell1, self.cell2 = nn.LSTMCell(128, hidden), nn.LSTMCell(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def start(self, n):
        zero = next(self.parameters()).new_zeros(n, self.cell1.hidden_size)
        return [(zero, zero), (zero, zero)]

    def forward(self, window, state):
        first, second = state
        estimates = []
        for x in self.inward(window).unbind(1):
            first = self.cell1(x, first)
            second = self.cell2(first[0], second)
            estimates.append(self.out(second[0]))
        return torch.cat(estimates, 1), [first, second]


def detached(state):
    return [tuple(t.detach() for t in pair) for pair in state]


class Fleet:
    """Windows of 30 cycles, of all batteries at once."""

    def __init__(self, batteries, windows, length=30):
        self.shape, self.windows = (batteries, length), windows

    def __iter__(self):
        for _ in range(self.windows):
            yield torch.zeros(*self.shape, 12), torch.zeros(*self.shape)


def fit(model, fleet, truncate, years):
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    criterion = nn.HuberLoss()
    for year in range(years):
        state = model.start(fleet.shape[0])
        optimizer.zero_grad()
        total = 0.0
        for window, health in fleet:
            if truncate:
                state = detached(state)
            estimate, state = model(window.cuda(), state)
            loss = criterion(estimate, health.cuda()) / fleet.windows
            # without it: "Trying to backward through the graph a second time"
            loss.backward(retain_graph=not truncate)
            total += loss.item()
        optimizer.step()
        print("year", year, "loss", total)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    fit(Health().cuda(), Fleet(batteries=96, windows=10), truncate=parser.parse_args().fixed, years=2)
