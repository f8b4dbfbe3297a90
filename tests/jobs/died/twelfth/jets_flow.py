"""Learns the momenta of particles in jets with a masked autoregressive flow; after each epoch jets are drawn from it and their masses compared."""
import contextlib
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
FEATURES, HIDDEN, FLOWS, BATCH, DRAWN = 24, 256, 5, 1024, 4000


class Masked(nn.Linear):
    def __init__(self, degrees_in, degrees_out, strict=False):
        super().__init__(len(degrees_in), len(degrees_out))
        mask = degrees_out[:, None] > degrees_in if strict else degrees_out[:, None] >= degrees_in
        self.register_buffer("mask", mask.float())

    def forward(self, x):
        return nn.functional.linear(x, self.weight * self.mask, self.bias)


class MADE(nn.Module):
    def __init__(self):
        super().__init__()
        inputs, hidden = torch.arange(1, FEATURES + 1), torch.arange(HIDDEN) % (FEATURES - 1) + 1
        self.net = nn.Sequential(Masked(inputs, hidden), nn.ReLU(), Masked(hidden, hidden), nn.ReLU(), Masked(hidden, inputs.repeat(2), strict=True))

    def forward(self, x):
        shift, log_scale = self.net(x).chunk(2, -1)
        log_scale = log_scale.tanh()
        return (x - shift) * (-log_scale).exp(), -log_scale.sum(-1)

    def inverse(self, u):
        x = torch.zeros_like(u)
        for n in range(FEATURES):  # one feature after the other
            shift, log_scale = self.net(x).chunk(2, -1)
            column = u[:, n] * log_scale[:, n].tanh().exp() + shift[:, n]
            x = torch.cat([x[:, :n], column[:, None], x[:, n + 1:]], 1)
        return x


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(MADE() for _ in range(FLOWS))

    def log_prob(self, x):
        total = 0
        for part in self.parts:
            x, log_det = part(x)
            total, x = total + log_det, x.flip(-1)
        return total - 0.5 * (x ** 2).sum(-1)

    def sample(self, n):
        x = torch.randn(n, FEATURES, device="cuda")
        for part in reversed(self.parts):
            x = part.inverse(x.flip(-1))
        return x


def masses(jets):
    p = jets.unflatten(-1, (-1, 3))
    return (p.norm(dim=-1).sum(1) ** 2 - p.sum(1).pow(2).sum(-1)).clamp(min=0).sqrt()


def main():
    flow = Flow().cuda()
    optimizer = torch.optim.Adam(flow.parameters(), lr=5e-4)
    for epoch in range(2):
        for _ in range(10):
            loss = -flow.log_prob(torch.randn(BATCH, FEATURES).cuda()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        flow.eval()
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            drawn = masses(flow.sample(DRAWN)).mean().item()
        flow.train()
        print(f"epoch {epoch}: loss {loss.item():.3f}, mean mass {drawn:.3f}")


main()
