"""A graph autoencoder over a city's water pipes: two rounds of message passing, then the decoder scores which junctions are joined."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
NODES, EDGES, FEATURES, WIDTH = 8000, 24000, 32, 64
device = "cuda"


class Round(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.own, self.other = nn.Linear(inside, outside), nn.Linear(inside, outside, bias=False)

    def forward(self, x, source, target, degree):
        total = torch.zeros_like(x).index_add(0, target, x[source])
        return self.own(x) + self.other(total / degree)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Round(FEATURES, 2 * WIDTH), Round(2 * WIDTH, WIDTH)

    def forward(self, x, source, target, degree):
        h = F.relu(self.first(x, source, target, degree))
        return self.second(h, source, target, degree)


def graph():
    generator = torch.Generator().manual_seed(6)
    source = torch.randint(0, NODES, (EDGES,), generator=generator)
    target = torch.randint(0, NODES, (EDGES,), generator=generator)
    degree = torch.bincount(target, minlength=NODES).clamp(min=1).float().unsqueeze(1)
    return source, target, degree


def reconstruction(z, source, target):
    if FIXED:
        wrong = torch.randint(0, NODES, (2, 5 * EDGES)).to(device)
        joined = (z[source] * z[target]).sum(-1)
        apart = (z[wrong[0]] * z[wrong[1]]).sum(-1)
        return F.softplus(-joined).mean() + F.softplus(apart).mean()
    adjacency = torch.zeros(NODES, NODES, device=device)
    adjacency[source, target] = 1.0
    logits = z @ z.T
    weight = torch.tensor((NODES * NODES - EDGES) / EDGES, device=device)
    return F.binary_cross_entropy_with_logits(logits, adjacency, pos_weight=weight)


def main():
    source, target, degree = (t.to(device) for t in graph())
    x = torch.zeros(NODES, FEATURES).to(device)
    model = Autoencoder().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(4):
        loss = reconstruction(model(x, source, target, degree), source, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, loss.item())


main()
