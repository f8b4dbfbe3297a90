"""Forecasts neural activity in larval zebrafish (light-sheet calcium imaging) from the last 96 frames with a temporal CNN."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda")
FIXED = "--fixed" in sys.argv


class CalciumWindows(Dataset):
    """dF/F of the neurons, cut into overlapping windows, each standardised by its own mean and deviation."""

    def __init__(self, traces, history=96, horizon=8, stride=2):
        windows = traces.unfold(1, history + horizon, stride).permute(1, 0, 2)          # window, neuron, frame
        mean = windows[..., :history].mean(-1, keepdim=True)
        std = windows[..., :history].std(-1, keepdim=True) + 1e-3
        data = (windows - mean) / std
        self.data = data if FIXED else data.to(device)
        self.history = history

    def __len__(self):
        return self.data.shape[0]

    def __getitem__(self, i):
        w = self.data[i]
        return w[:, :self.history], w[:, self.history:]


class Chomp(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(c, c, 3, dilation=dilation)

    def forward(self, x):
        return x + torch.relu(self.conv(nn.functional.pad(x, (self.pad, 0))))


class NeuronTCN(nn.Module):
    def __init__(self, neurons, hidden=256, horizon=8):
        super().__init__()
        self.horizon = horizon
        self.inp = nn.Conv1d(neurons, hidden, 1)
        self.tcn = nn.Sequential(*[Chomp(hidden, 2 ** k) for k in range(5)])
        self.out = nn.Linear(hidden, neurons * horizon)

    def forward(self, x):
        h = self.tcn(self.inp(x))[..., -1]
        return self.out(h).view(len(x), x.shape[1], self.horizon)


def recording(neurons=2000, frames=3000):
    g = torch.Generator().manual_seed(30)
    return torch.rand(neurons, frames, generator=g)


def main():
    dataset = CalciumWindows(recording())
    loader = DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True)
    net = NeuronTCN(neurons=2000).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for epoch in range(2):
        losses = []
        for past, future in loader:
            past, future = past.to(device), future.to(device)
            loss = (net(past) - future).abs().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: MAE {sum(losses) / len(losses):.4f} over {len(losses)} batches")


if __name__ == "__main__":
    main()
