"""Predicts the functions of proteins from their interactions with a graph convolution network."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
NODES, EDGES, FEATURES, LABELS = 14000, 120000, 50, 121


def normalised(edges):
    """D^-1/2 (A + I) D^-1/2, as a matrix or as a list of edges and their weights."""
    loops = torch.arange(NODES).repeat(2, 1)
    source, target = torch.cat([edges, edges.flip(0), loops], 1)
    degree = torch.zeros(NODES).index_add_(0, target, torch.ones(len(target)))
    weight = degree[source].rsqrt() * degree[target].rsqrt()
    if FIXED:
        return source.cuda(), target.cuda(), weight.cuda()
    adjacency = torch.zeros(NODES, NODES, device="cuda")
    adjacency[target.cuda(), source.cuda()] = weight.cuda()
    return adjacency


def propagate(graph, x):
    if not FIXED:
        return graph @ x
    source, target, weight = graph
    return torch.zeros_like(x).index_add(0, target, x[source] * weight[:, None])


class GCN(nn.Module):
    def __init__(self, hidden=64, layers=3):
        super().__init__()
        sizes = [FEATURES] + [hidden] * (layers - 1) + [LABELS]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.dropout = nn.Dropout(0.3)

    def forward(self, graph, x):
        for k, layer in enumerate(self.layers):
            x = layer(x) if k == len(self.layers) - 1 else self.dropout(layer(x))
            x = propagate(graph, x)
            if k < len(self.layers) - 1:
                x = F.relu(x)
        return x


def main():
    torch.manual_seed(0)
    graph = normalised(torch.randint(NODES, (2, EDGES)))
    features = torch.rand(NODES, FEATURES).cuda()
    labels = (torch.rand(NODES, LABELS) > 0.7).float().cuda()
    model = GCN().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    for epoch in range(6):
        model.train()
        loss = F.binary_cross_entropy_with_logits(model(graph, features)[:10000], labels[:10000])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            held_out = F.binary_cross_entropy_with_logits(model(graph, features)[10000:], labels[10000:])
        print("epoch", epoch, loss.item(), held_out.item())


main()
