"""Predicts tides with a temporal convolution network, and averages the three best epochs at the end."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv


class Causal(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(width, width, 3, dilation=dilation)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return x + self.mix(torch.relu(self.conv(nn.functional.pad(x, (self.pad, 0)))))


class Tides(nn.Module):
    def __init__(self, width=512, layers=8):
        super().__init__()
        self.enter = nn.Conv1d(6, width, 1)
        self.layers = nn.Sequential(*(Causal(width, 2 ** k) for k in range(layers)))
        self.leave = nn.Conv1d(width, 1, 1)

    def forward(self, x):
        return self.leave(self.layers(self.enter(x)))


class History:
    def __init__(self):
        self.epochs = []

    def add(self, error, model):
        if FIXED:
            weights = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}
        else:
            weights = {k: v.clone() for k, v in model.state_dict().items()}
        self.epochs.append((error, weights))

    def average(self, n=3):
        best = sorted(self.epochs, key=lambda e: e[0])[:n]
        return {k: sum(w[k].float().cpu() for _, w in best) / n for k in best[0][1]}


def gauges(n, seed):
    for _ in range(n):
        x = torch.zeros(8, 6, 336)
        yield x.cuda(), x[:, :1].cuda()


model = Tides().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
history = History()
for epoch in range(20):
    model.train()
    for x, y in gauges(3, epoch):
        loss = nn.functional.huber_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        errors = [nn.functional.l1_loss(model(x), y).item() for x, y in gauges(2, -1)]
    history.add(sum(errors) / len(errors), model)
    print("epoch", epoch, "error", history.epochs[-1][0])
model.load_state_dict(history.average())
