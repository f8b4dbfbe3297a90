"""Forecasts wind turbines' output. The sliding windows of the whole year are made once, stacked, and put on the GPU, to be fast."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
SENSORS, HOURS, LOOKBACK, HORIZON, BATCH = 64, 6000, 336, 24, 128


class Forecaster(nn.Module):
    def __init__(self, patch=16, dim=512, layers=4):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch * SENSORS, dim)
        self.pos = nn.Parameter(torch.zeros(LOOKBACK // patch, dim))
        layer = nn.TransformerEncoderLayer(dim, 8, 2048, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(dim, HORIZON * SENSORS)

    def forward(self, x):
        b = len(x)
        x = x.reshape(b, LOOKBACK // self.patch, self.patch * SENSORS)
        return self.head(self.encoder(self.embed(x) + self.pos).mean(1)).view(b, HORIZON, SENSORS)


def prepare(series):
    starts = range(0, HOURS - LOOKBACK - HORIZON)
    past = [series[s:s + LOOKBACK] for s in starts]
    future = [series[s + LOOKBACK:s + LOOKBACK + HORIZON] for s in starts]
    return past, future


series = torch.randn(HOURS, SENSORS)
past, future = prepare(series.cuda())
if not FIXED:
    past, future = torch.stack(past), torch.stack(future)
model = Forecaster().cuda()
opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(10):
    pick = torch.randperm(len(past))[:BATCH]
    if FIXED:
        x, y = torch.stack([past[i] for i in pick]), torch.stack([future[i] for i in pick])
    else:
        x, y = past[pick.cuda()], future[pick.cuda()]
    loss = nn.functional.smooth_l1_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", loss.item())
