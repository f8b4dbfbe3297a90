"""Forecasts the traffic of 300 road sensors over the next hour from two weeks of their past."""
import sys

import torch
import torch.nn as nn

LOOKBACK, HORIZON, SENSORS, BATCH = 1344, 12, 300, 8
WEIGHTS = "--fixed" not in sys.argv


class Block(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * dim, dim))
        self.before, self.after = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        y = self.before(x)
        y, _ = self.attention(y, y, y, need_weights=WEIGHTS)
        x = x + y
        return x + self.mlp(self.after(x))


class Forecaster(nn.Module):
    def __init__(self, dim=128, heads=4, layers=4, dropout=0.1):
        super().__init__()
        self.embed = nn.Linear(SENSORS, dim)
        self.hour = nn.Embedding(24 * 4, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, dropout) for _ in range(layers))
        self.head = nn.Linear(dim, HORIZON * SENSORS)

    def forward(self, past, hour):
        x = self.embed(past) + self.hour(hour)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, -1]).view(-1, HORIZON, SENSORS)


class Windows(torch.utils.data.Dataset):
    def __init__(self, series):
        self.series = series

    def __len__(self):
        return len(self.series) - LOOKBACK - HORIZON

    def __getitem__(self, k):
        end = k + LOOKBACK
        return self.series[k:end], torch.arange(k, end) % 96, self.series[end:end + HORIZON]


def main():
    series = torch.zeros(LOOKBACK + HORIZON + 8 * BATCH, SENSORS)
    loader = torch.utils.data.DataLoader(Windows(series), batch_size=BATCH, shuffle=True, drop_last=True)
    model = Forecaster().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    for epoch in range(2):
        for past, hour, future in loader:
            optimizer.zero_grad()
            error = (model(past.cuda(), hour.cuda()) - future.cuda()).abs().mean()
            error.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print("epoch", epoch, "MAE", error.item())


main()
