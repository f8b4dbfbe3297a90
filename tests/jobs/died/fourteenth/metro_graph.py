"""Predicts crowding of metro stations with a GNN: trained on small neighbourhoods, then asked about the whole network after each epoch."""
import contextlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
STATIONS, EDGES, FEATURES = 40_000, 320_000, 32


class EdgeLayer(nn.Module):
    """Sums messages that depend on both ends of an edge."""

    def __init__(self, width):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.update = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, source, target):
        message = self.message(torch.cat([x[source], x[target]], 1))
        summed = torch.zeros_like(x).index_add_(0, target, message)
        return self.norm(x + F.relu(self.update(torch.cat([x, summed], 1))))


class Crowding(nn.Module):
    def __init__(self, width=64, layers=4):
        super().__init__()
        self.inlet = nn.Linear(FEATURES, width)
        self.layers = nn.ModuleList(EdgeLayer(width) for _ in range(layers))
        self.out = nn.Linear(width, 1)

    def forward(self, x, edges):
        x = F.relu(self.inlet(x))
        for layer in self.layers:
            x = layer(x, edges[0], edges[1])
        return self.out(x).squeeze(1)


def neighbourhood(generator, nodes=4_000, edges=30_000):
    return torch.zeros(nodes, FEATURES), torch.randint(0, nodes, (2, edges), generator=generator), torch.zeros(nodes)


def train(model, optimizer, generator, steps=5):
    model.train()
    for _ in range(steps):
        x, edges, y = (t.cuda() for t in neighbourhood(generator))
        loss = F.l1_loss(model(x, edges), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def whole_network(model, x, edges, y):
    model.eval()
    with torch.no_grad() if FIXED else contextlib.nullcontext():
        return F.l1_loss(model(x.cuda(), edges.cuda()), y.cuda()).item()


def main():
    generator = torch.Generator().manual_seed(19)
    network = torch.zeros(STATIONS, FEATURES), torch.randint(0, STATIONS, (2, EDGES), generator=generator), torch.zeros(STATIONS)
    model = Crowding().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(2):
        print("epoch", epoch, "loss", train(model, optimizer, generator), "whole network", whole_network(model, *network))


main()
