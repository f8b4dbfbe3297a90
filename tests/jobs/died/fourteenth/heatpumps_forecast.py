"""Forecasts the power of heat pumps hour by hour with dilated convolutions; at the end of an epoch the error of each hour of the week is printed."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
SENSORS, HISTORY, HOUSES = 12, 1024, 64


class Dilated(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.filter = nn.Conv1d(channels, channels, 3, dilation=dilation)
        self.gate = nn.Conv1d(channels, channels, 3, dilation=dilation)
        self.mix = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        padded = F.pad(x, (self.pad, 0))
        return x + self.mix(torch.tanh(self.filter(padded)) * torch.sigmoid(self.gate(padded)))


class Forecaster(nn.Module):
    def __init__(self, channels=48):
        super().__init__()
        self.inlet = nn.Conv1d(SENSORS, channels, 1)
        self.blocks = nn.ModuleList(Dilated(channels, 2 ** k) for k in range(7))
        self.quantiles = nn.Conv1d(channels, 25, 1)

    def forward(self, x):
        x = self.inlet(x)
        for block in self.blocks:
            x = block(x)
        return self.quantiles(x)


def pinball(predicted, truth, levels):
    error = truth.unsqueeze(1) - predicted
    return torch.maximum(levels * error, (levels - 1) * error).mean()


class Epoch:
    """What an epoch's report needs."""

    def __init__(self):
        self.predicted, self.truth = [], []

    def add(self, predicted, truth):
        if FIXED:
            predicted, truth = predicted.detach().cpu(), truth.cpu()
        self.predicted.append(predicted)
        self.truth.append(truth)

    def report(self):
        for start in range(0, HISTORY, 256):
            error = 0.0
            for p, t in zip(self.predicted, self.truth):
                error += (p[:, 12, start:start + 256] - t[:, start:start + 256]).abs().mean().item()
            print("hours from", start, "error", error / len(self.truth))


def main():
    model = Forecaster().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    levels = torch.linspace(0.02, 0.98, 25).view(1, -1, 1).cuda()
    for epoch in range(1):
        gathered = Epoch()
        for batch in range(100):
            series = torch.zeros(HOUSES, SENSORS, HISTORY).cuda()
            target = torch.zeros(HOUSES, HISTORY).cuda()
            predicted = model(series)
            loss = pinball(predicted, target, levels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            gathered.add(predicted, target)
        gathered.report()


main()
