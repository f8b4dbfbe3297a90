"""Forecasts the number of calls per quarter hour of 400 contact centres. The year is cut into windows; the state runs through it."""
import sys

import torch
import torch.nn as nn


class LoadForecaster(nn.Module):
    def __init__(self, features=14, hidden=256, layers=2):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True)
        self.out = nn.Sequential(nn.Linear(hidden, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x, state=None):
        h, state = self.lstm(x, state)
        return self.out(h).squeeze(-1), state


class YearOfCalls:
    def __init__(self, centres=400, window=192, windows=10):
        self.shape, self.windows = (centres, window), windows

    def __iter__(self):
        g = torch.Generator().manual_seed(5)
        for _ in range(self.windows):
            yield torch.randn(*self.shape, 14, generator=g), torch.rand(*self.shape, generator=g) * 30


class Fitter:
    def __init__(self, model, lr=1e-3):
        self.model = model.cuda()
        self.opt = torch.optim.RMSprop(self.model.parameters(), lr=lr)
        self.loss = nn.PoissonNLLLoss(log_input=True)

    def epoch(self, year):
        state, seen = None, []
        self.opt.zero_grad()
        for x, calls in year:
            rate, state = self.model(x.cuda(), state)
            loss = self.loss(rate, calls.cuda()) / year.windows
            if "--fixed" in sys.argv:
                loss.backward()
                state = tuple(s.detach() for s in state)
            else:
                loss.backward(retain_graph=True)
            seen.append(loss.item())
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.opt.step()
        return sum(seen)


fitter = Fitter(LoadForecaster())
for number in range(2):
    print("epoch", number, fitter.epoch(YearOfCalls()))
