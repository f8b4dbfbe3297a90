"""Generator of lipid bilayer frames, trained to a small optimal-transport distance between made and simulated configurations."""
import sys

import torch
import torch.nn as nn

fixed = "--fixed" in sys.argv


def squared_costs(x, y):
    """(batch, n, d), (batch, m, d) -> (batch, n, m)"""
    if fixed:
        xx, yy = x.pow(2).sum(-1)[:, :, None], y.pow(2).sum(-1)[:, None, :]
        return xx + yy - 2 * torch.bmm(x, y.transpose(1, 2))
    return (x.unsqueeze(2) - y.unsqueeze(1)).pow(2).sum(-1)


@torch.no_grad()
def plan(cost, eps=0.05, rounds=15):
    b, n, m = cost.shape
    f, g = cost.new_zeros(b, n), cost.new_zeros(b, m)
    for _ in range(rounds):
        f = -eps * torch.logsumexp((g[:, None, :] - cost) / eps, 2)
        g = -eps * torch.logsumexp((f[:, :, None] - cost) / eps, 1)
    return torch.exp((f[:, :, None] + g[:, None, :] - cost) / eps) / (n * m)


def sinkhorn_loss(x, y):
    cost = squared_costs(x, y)
    return (plan(cost) * cost).sum((1, 2)).mean()


class BilayerGenerator(nn.Module):
    """A set of noise vectors becomes a set of lipids: head, tails and angles in 48 numbers."""

    def __init__(self, noise=32, width=256, out=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(noise, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, out))

    def forward(self, z):
        return self.net(z)


def frames(batch, lipids=1024):
    g = torch.Generator().manual_seed(2)
    while True:
        yield torch.rand(batch, lipids, 48, generator=g)


generator = BilayerGenerator().to("cuda")
optimizer = torch.optim.RMSprop(generator.parameters(), lr=5e-4)
source = frames(6)
for iteration in range(10):
    real = next(source).to("cuda")
    made = generator(torch.randn(6, 1024, 32).to("cuda"))
    loss = sinkhorn_loss(made, real)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{iteration:3d}  {loss.item():.5f}")
