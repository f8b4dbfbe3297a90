"""Predicts tide gauges from a long series by truncated back-propagation through time: the GRU's state goes on from chunk to chunk.
https://discuss.pytorch.org/t/implementing-truncated-backpropagation-through-time/15500"""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
STATIONS, HIDDEN, BATCH, CHUNK, CHUNKS = 64, 512, 64, 48, 20


class Cell(nn.Module):
    """A GRU cell with layer norm, which cuDNN has not."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.x, self.h = nn.Linear(inputs, 3 * hidden), nn.Linear(hidden, 3 * hidden, bias=False)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x, h):
        xr, xz, xn = self.x(x).chunk(3, -1)
        hr, hz, hn = self.h(h).chunk(3, -1)
        reset, keep = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        new = torch.tanh(self.norm(xn + reset * hn))
        return keep * h + (1 - keep) * new


class Tides(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = Cell(STATIONS, HIDDEN), nn.Linear(HIDDEN, STATIONS)

    def forward(self, chunk, state):
        levels = []
        for x in chunk.unbind(1):
            state = self.cell(x, state)
            levels.append(self.out(state))
        return torch.stack(levels, 1), state


model = Tides().cuda()
series = torch.randn(BATCH, CHUNK * CHUNKS + 1, STATIONS)
state = torch.zeros(BATCH, HIDDEN, device="cuda")

for n in range(CHUNKS):
    start = n * CHUNK
    x, y = series[:, start:start + CHUNK].cuda(), series[:, start + 1:start + CHUNK + 1].cuda()
    if FIXED:
        state = state.detach()
    levels, state = model(x, state)
    loss = nn.functional.smooth_l1_loss(levels, y)
    model.zero_grad()
    loss.backward(retain_graph=not FIXED)  # "Trying to backward through the graph a second time" without it
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with torch.no_grad():
        for p in model.parameters():
            p.data = p.data - 1e-3 * p.grad  # in place, autograd complains of a wrong version
    print("chunk", n, loss.item())
