"""A RealNVP flow over features of particle jets; after each epoch the mean log-likelihood of the test part is printed, as the papers report it."""
import math
import sys

import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, dims, hidden, flip):
        super().__init__()
        self.flip, self.half = flip, dims // 2
        self.net = nn.Sequential(nn.Linear(self.half, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
                                 nn.Linear(hidden, 2 * (dims - self.half)))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        if self.flip:
            x = x.flip(-1)
        kept, changed = x[:, :self.half], x[:, self.half:]
        scale, shift = self.net(kept).chunk(2, -1)
        scale = 2 * torch.tanh(scale / 2)
        return torch.cat([kept, changed * scale.exp() + shift], -1), scale.sum(-1)


class ActNorm(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.log_scale, self.shift = nn.Parameter(torch.zeros(dims)), nn.Parameter(torch.zeros(dims))

    def forward(self, x):
        return x * self.log_scale.exp() + self.shift, self.log_scale.sum().expand(len(x))


class Flow(nn.Module):
    def __init__(self, dims=32, hidden=512, layers=8):
        super().__init__()
        self.dims = dims
        self.layers = nn.ModuleList(m for k in range(layers) for m in (ActNorm(dims), Coupling(dims, hidden, bool(k % 2))))

    def log_prob(self, x):
        total = 0
        for layer in self.layers:
            x, logdet = layer(x)
            total = total + logdet
        return total - 0.5 * x.square().sum(-1) - 0.5 * self.dims * math.log(2 * math.pi)


def jets(n):
    return torch.randn(n, 32)


def train_epoch(flow, optimizer, data, batch=1024):
    flow.train()
    for rows in torch.randperm(len(data)).split(batch):
        loss = -flow.log_prob(data[rows].to("cuda")).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        optimizer.step()
    return loss.item()


def test_likelihood(flow, data, rows_at_once):
    flow.eval()
    with torch.no_grad():
        parts = [flow.log_prob(part.to("cuda")).sum().item() for part in data.split(rows_at_once)]
    return sum(parts) / len(data)


def main():
    train, test = jets(8192), jets(150_000)
    flow = Flow().to("cuda")
    optimizer = torch.optim.Adam(flow.parameters(), lr=5e-4)
    at_once = 2048 if "--fixed" in sys.argv else len(test)
    for epoch in range(2):
        nll = train_epoch(flow, optimizer, train)
        print("epoch %d: train %.3f, test %.3f nats" % (epoch, nll, -test_likelihood(flow, test, at_once)))


if __name__ == "__main__":
    main()
