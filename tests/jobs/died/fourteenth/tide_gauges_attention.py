"""Learns surges from a month of tide-gauge readings with an encoder whose attention was written after a tutorial."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
READINGS = 2880  # every quarter of an hour


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.dropout = nn.Dropout(0.1)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        if FIXED:
            out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0)
        else:
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            out = self.dropout(scores.softmax(-1)) @ v
        return self.o(out.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.first = Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.second = nn.LayerNorm(width)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class SurgeEncoder(nn.Module):
    def __init__(self, gauges=7, width=96, heads=4, layers=3):
        super().__init__()
        self.inlet = nn.Linear(gauges, width)
        self.place = nn.Parameter(torch.zeros(1, READINGS, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.surge = nn.Linear(width, 1)

    def forward(self, x):
        x = self.inlet(x) + self.place
        for layer in self.layers:
            x = layer(x)
        return self.surge(x).squeeze(-1)


def months(count):
    for _ in range(count):
        yield torch.zeros(4, READINGS, 7), torch.zeros(4, READINGS)


model = SurgeEncoder().to("cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=4e-4)
for number, (readings, surge) in enumerate(months(6)):
    loss = F.smooth_l1_loss(model(readings.to("cuda")), surge.to("cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("month batch", number, "loss", loss.item())
