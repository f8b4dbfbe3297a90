"""Truck fleet telemetry: a TCN predicts fuel use from windows over 24 channels of the CAN bus."""
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class WindowDataset(Dataset):
    def __init__(self, n_steps, window=256, stride=2, channels=24, device="cpu"):
        g = torch.Generator().manual_seed(0)
        series = torch.rand(n_steps, channels, generator=g)
        windows = series.unfold(0, window, stride)              # (n, channels, window)
        self.x = windows.contiguous().to(device)
        self.y = series[window - 1::stride, 0][:len(windows)].clone().to(device)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Chomp(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        return x[..., :-self.n].contiguous()


def tcn(channels, width=48, levels=5):
    mods, prev = [], channels
    for i in range(levels):
        d = 2 ** i
        mods += [nn.Conv1d(prev, width, 3, padding=2 * d, dilation=d), Chomp(2 * d), nn.ReLU(), nn.Dropout(0.1)]
        prev = width
    return nn.Sequential(*mods)


class FuelModel(nn.Module):
    def __init__(self, channels=24):
        super().__init__()
        self.tcn, self.head = tcn(channels), nn.Linear(48, 1)

    def forward(self, x):
        return self.head(self.tcn(x)[..., -1]).squeeze(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps-of-series", type=int, default=64000)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--max-iters", type=int, default=20)
    ap.add_argument("--fixed", action="store_true")
    a = ap.parse_args()
    device = torch.device("cuda")
    ds = WindowDataset(a.steps_of_series, device="cpu" if a.fixed else device)
    loader = DataLoader(ds, batch_size=a.batch_size, shuffle=True)
    model = FuelModel().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for it, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 5 == 0:
            print(it, loss.item())
        if it + 1 == a.max_iters:
            break


main()
