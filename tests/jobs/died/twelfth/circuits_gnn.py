"""Predicts delays of cells in netlists with a GraphSAGE-like network; a batch is eight circuits, joined into one graph as they come."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
MOST_CELLS = 12000  # of one circuit, in --fixed
CELLS = [6000, 5200, 7400, 6600, 5900, 7100, 6300, 95000, 6900, 6100]  # of the largest circuit of each batch


class Convolution(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.own, self.message, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, h, source, target):
        sent = torch.relu(self.message(h[source]))
        got = torch.zeros_like(h).index_add(0, target, sent)
        return h + torch.relu(self.norm(self.own(h) + got))


class DelayNet(nn.Module):
    def __init__(self, kinds=200, width=96, depth=5):
        super().__init__()
        self.cells = nn.Embedding(kinds, width)
        self.layers = nn.ModuleList(Convolution(width) for _ in range(depth))
        self.out = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, kinds, edges):
        h = self.cells(kinds)
        for layer in self.layers:
            h = layer(h, edges[0], edges[1])
        return self.out(h).squeeze(-1)


def circuit(cells, generator):
    kinds = torch.randint(0, 200, (cells,), generator=generator)
    edges = torch.randint(0, cells, (2, 2 * cells), generator=generator)
    return kinds, edges, torch.rand(cells, generator=generator)


def joined(circuits):
    """Like a PyG batch: one graph, with the cells' numbers moved."""
    offset, kinds, edges, delays = 0, [], [], []
    for k, e, d in circuits:
        kinds.append(k)
        edges.append(e + offset)
        delays.append(d)
        offset += len(k)
    return torch.cat(kinds), torch.cat(edges, 1), torch.cat(delays)


def batches():
    generator = torch.Generator().manual_seed(11)
    for largest in CELLS:
        circuits = [circuit(n, generator) for n in [largest, *range(1500, 5000, 500)]]
        if FIXED:
            circuits = [c for c in circuits if len(c[0]) <= MOST_CELLS]
        yield joined(circuits)


def train(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, batch in enumerate(batches()):
        kinds, edges, delays = (t.to("cuda") for t in batch)
        loss = nn.functional.mse_loss(model(kinds, edges), delays)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "cells", len(kinds), "loss", loss.item())


train(DelayNet().to("cuda"))
