"""Water levels of a canal network, 64 gauges: an LSTM reads a year in windows of 48 hours and carries its state from window to window."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
WINDOW, WINDOWS, GAUGES = 48, 24, 64


class LevelModel(nn.Module):
    def __init__(self, n_inputs=GAUGES, hidden=320):
        super().__init__()
        self.inp = nn.Linear(n_inputs, hidden)
        self.rnn = nn.LSTM(hidden, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.out = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, n_inputs))
        self.state = None

    def reset(self):
        self.state = None

    def forward(self, x):
        if FIXED and self.state is not None:
            self.state = tuple(s.detach() for s in self.state)
        y, self.state = self.rnn(torch.relu(self.inp(x)), self.state)
        return self.out(y)


def year(gen, batch=48):
    base = torch.randn(batch, WINDOW * WINDOWS + 1, GAUGES, generator=gen).cumsum(1) * 0.01
    return base[:, :-1], base[:, 1:]


def fit(model, n_years=3):
    gen = torch.Generator().manual_seed(1953)
    optim = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for n in range(n_years):
        x, y = year(gen)
        model.reset()
        optim.zero_grad()
        total = 0.0
        for xw, yw in zip(x.split(WINDOW, 1), y.split(WINDOW, 1)):
            loss = nn.functional.huber_loss(model(xw.cuda()), yw.cuda()) / WINDOWS
            # without retain_graph: "Trying to backward through the graph a second time"
            loss.backward(retain_graph=True)
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        print("year", n, "loss", total)


fit(LevelModel().cuda())
