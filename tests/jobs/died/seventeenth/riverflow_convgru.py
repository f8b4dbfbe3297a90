"""Forecasts the flow of rivers on a grid: a convolutional GRU reads a year of days in windows and carries its state along."""
import sys

import torch
from torch import nn

CARRY_PER_WINDOW = "--fixed" in sys.argv


class ConvGRUCell(nn.Module):
    def __init__(self, inputs, hidden, kernel=5):
        super().__init__()
        pad = kernel // 2
        self.hidden = hidden
        self.gates = nn.Conv2d(inputs + hidden, 2 * hidden, kernel, padding=pad)
        self.candidate = nn.Conv2d(inputs + hidden, hidden, kernel, padding=pad)

    def forward(self, x, h):
        z, r = torch.sigmoid(self.gates(torch.cat([x, h], 1))).chunk(2, 1)
        n = torch.tanh(self.candidate(torch.cat([x, r * h], 1)))
        return (1 - z) * h + z * n


class FlowModel(nn.Module):
    def __init__(self, inputs=6, hidden=32):
        super().__init__()
        self.cell = ConvGRUCell(inputs, hidden)
        self.read = nn.Conv2d(hidden, 1, 1)

    def forward(self, days, state):
        flows = []
        for day in days.unbind(1):
            state = self.cell(day, state)
            flows.append(self.read(state))
        return torch.stack(flows, 1), state


class Catchments:
    """Rain, snow melt, soil moisture, ... and the flow, for eight catchments."""

    def __init__(self, days=120, window=10):
        g = torch.Generator().manual_seed(8)
        self.forcing = torch.rand(8, days, 6, 48, 48, generator=g)
        self.flow = self.forcing[:, :, :2].sum(2, keepdim=True).roll(3, 1)
        self.window = window

    def windows(self):
        for start in range(0, self.forcing.shape[1], self.window):
            part = slice(start, start + self.window)
            yield self.forcing[:, part].cuda(), self.flow[:, part].cuda()


def train_year(model, optimizer, data):
    state = torch.zeros(8, 32, 48, 48, device="cuda")
    total, count, shown = 0.0, 0, 0.0
    optimizer.zero_grad()
    for forcing, flow in data.windows():
        predicted, state = model(forcing, state)
        loss = nn.functional.mse_loss(predicted, flow)
        count += 1
        if CARRY_PER_WINDOW:
            loss.backward()
            state = state.detach()
            shown += loss.item()
        else:
            total = total + loss
    if not CARRY_PER_WINDOW:
        total.backward()
        shown = total.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return shown / count


def main():
    data, model = Catchments(), FlowModel().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for year in range(3):
        print("pass", year, "mean squared error", train_year(model, optimizer, data))


main()
