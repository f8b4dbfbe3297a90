"""Passengers per station for the next hour from smart-card taps of the last week (MLP-Mixer over time and stations)."""
import sys

import torch
import torch.nn as nn

HOURS, STATIONS, WEEK = 24000, 52, 168
device = torch.device("cuda")


class MixerLayer(nn.Module):
    def __init__(self, steps, channels, hidden=256):
        super().__init__()
        self.time = nn.Sequential(nn.LayerNorm(steps), nn.Linear(steps, hidden), nn.GELU(), nn.Linear(hidden, steps))
        self.stations = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, channels))

    def forward(self, x):
        x = x + self.time(x)
        return x + self.stations(x.transpose(1, 2)).transpose(1, 2)


class TapMixer(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.layers = nn.Sequential(*[MixerLayer(WEEK, STATIONS) for _ in range(layers)])
        self.head = nn.Linear(WEEK, 1)

    def forward(self, x):
        return self.head(self.layers(x)).squeeze(-1)


def read_taps():
    clock = torch.arange(HOURS, dtype=torch.float32)
    daily = torch.sin(clock * 2 * torch.pi / 24)[:, None] + torch.linspace(0, 1, STATIONS)
    return daily + 0.1 * torch.rand(HOURS, STATIONS, generator=torch.Generator().manual_seed(13))


def prepare(taps):
    """inputs: one window of a week for every hour; targets: the hour after it"""
    taps = (taps - taps.mean(0)) / taps.std(0)
    inputs = taps[:-1].unfold(0, WEEK, 1)
    targets = taps[WEEK:]
    if "--fixed" not in sys.argv:
        inputs = inputs.contiguous().to(device)
        targets = targets.to(device)
    return inputs, targets


def main():
    inputs, targets = prepare(read_taps())
    split = int(0.9 * len(inputs))
    model = TapMixer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(2):
        order = torch.randperm(split)[:16 * 64].split(64)
        for index in order:
            x, y = inputs[index.to(inputs.device)].to(device), targets[index.to(targets.device)].to(device)
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            errors = [nn.functional.l1_loss(model(x.to(device)), y.to(device)).item()
                      for x, y in zip(inputs[split:split + 512].split(128), targets[split:split + 512].split(128))]
        model.train()
        print(f"epoch {epoch} loss {loss.item():.4f} mae {sum(errors) / len(errors):.4f}")


main()
