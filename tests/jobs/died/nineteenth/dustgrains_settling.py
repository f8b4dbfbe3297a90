"""Learns the forces between grains of dust that settle in a gas, from simulated accelerations (SchNet-like, continuous filters)."""
import sys

import torch
from torch import nn

GRAINS, NEIGHBOURS, BASIS, WIDTH = 3600, 40, 24, 32
FIXED = "--fixed" in sys.argv


class Filters(nn.Module):
    """Radial basis functions of the distance, then a small net: one weight per feature for a pair of grains."""

    def __init__(self, cutoff=2.0):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0, cutoff, BASIS))
        self.gamma = BASIS / cutoff
        self.lin = nn.Linear(BASIS, WIDTH)

    def forward(self, distance):
        rbf = torch.exp(-self.gamma * (distance.unsqueeze(-1) - self.centers) ** 2)
        return torch.tanh(self.lin(rbf))


class Interaction(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = Filters()
        self.inp, self.out = nn.Linear(WIDTH, WIDTH), nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, h, pos, index):
        if index is None:
            distance = (pos[:, None] - pos[None]).pow(2).sum(-1).add(1e-6).sqrt()
            mixed = torch.einsum("ijc,jc->ic", self.filters(distance), self.inp(h))
        else:
            distance = (pos[:, None] - pos[index]).pow(2).sum(-1).add(1e-6).sqrt()
            mixed = (self.filters(distance) * self.inp(h)[index]).sum(1)
        return h + self.out(mixed)


class DustNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(2, WIDTH)
        self.layer = Interaction()
        self.acceleration = nn.Linear(WIDTH, 3)

    def forward(self, features, pos, index=None):
        return self.acceleration(self.layer(self.embed(features), pos, index))


def snapshot(t):
    g = torch.Generator().manual_seed(t)
    pos = torch.rand(GRAINS, 3, generator=g) * 12
    features = torch.rand(GRAINS, 2, generator=g)  # radius and charge
    target = torch.rand(GRAINS, 3, generator=g) - 0.5
    index = torch.cdist(pos, pos).topk(NEIGHBOURS, largest=False).indices if FIXED else None
    return pos, features, target, index


net = DustNet().cuda()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for t in range(8):
    pos, features, target, index = (x if x is None else x.cuda() for x in snapshot(t))
    loss = (net(features, pos, index) - target).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("snapshot", t, "mean error", loss.item())
