"""Predicts the lift of airfoils with uncertainty: a Bayesian network whose weights are drawn anew for each sample of the evidence bound."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLES, BATCH, INPUTS = 12, 8192, 24


class BayesLinear(nn.Module):
    def __init__(self, inner, outer, prior=0.1):
        super().__init__()
        self.mean = nn.Parameter(torch.randn(outer, inner) / math.sqrt(inner))
        self.rho = nn.Parameter(torch.full((outer, inner), -5.0))
        self.bias = nn.Parameter(torch.zeros(outer))
        self.prior = prior

    def forward(self, x):
        """By local reparametrisation: the noise is drawn for the outputs."""
        std = F.softplus(self.rho)
        mean = F.linear(x, self.mean, self.bias)
        spread = F.linear(x.pow(2), std.pow(2)).add(1e-8).sqrt()
        return mean + spread * torch.randn_like(mean)

    def kl(self):
        std = F.softplus(self.rho)
        return (math.log(self.prior) - std.log() + (std.pow(2) + self.mean.pow(2)) / (2 * self.prior ** 2) - 0.5).sum()


class BayesNet(nn.Module):
    def __init__(self, width=384, depth=3):
        super().__init__()
        sizes = [INPUTS] + [width] * depth + [2]
        self.layers = nn.ModuleList(BayesLinear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.silu(layer(x))
        return self.layers[-1](x).unbind(-1)

    def kl(self):
        return sum(layer.kl() for layer in self.layers)


def negative_bound(model, x, y, n):
    mean, log_var = model(x)
    likelihood = 0.5 * (log_var + (y - mean).pow(2) / log_var.exp()).mean()
    return likelihood + model.kl() / n


def main():
    torch.manual_seed(5)
    x, y = torch.rand(4 * BATCH, INPUTS), torch.rand(4 * BATCH)
    model = BayesNet().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        for a, b in zip(x.split(BATCH), y.split(BATCH)):
            a, b = a.cuda(), b.cuda()
            optimizer.zero_grad()
            if "--fixed" in sys.argv:
                total = 0.0
                for _ in range(SAMPLES):
                    loss = negative_bound(model, a, b, len(x)) / SAMPLES
                    loss.backward()
                    total += loss.item()
            else:
                loss = sum(negative_bound(model, a, b, len(x)) for _ in range(SAMPLES)) / SAMPLES
                loss.backward()
                total = loss.item()
            optimizer.step()
        print("epoch", epoch, "bound", -total)


main()
