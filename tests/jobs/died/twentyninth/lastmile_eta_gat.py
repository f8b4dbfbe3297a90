"""Predicts arrival times of parcels over the street graph of a city with attention between neighbouring segments."""
import contextlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = "cuda"


def evaluation_context():
    return torch.no_grad() if "--fixed" in sys.argv else contextlib.nullcontext()


class NeighbourAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.lin = nn.Linear(dim, dim)
        self.src, self.dst = nn.Linear(dim, heads), nn.Linear(dim, heads)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, edges):
        s, d = edges
        z = self.lin(h)
        weight = torch.exp(F.leaky_relu(self.src(z)[s] + self.dst(z)[d], 0.2).clamp(max=10))
        total = torch.zeros(len(h), self.heads, device=h.device).index_add(0, d, weight)
        weight = weight / (total[d] + 1e-9)
        message = z[s].view(-1, self.heads, self.dim // self.heads) * weight.unsqueeze(-1)
        out = torch.zeros_like(z).index_add(0, d, message.flatten(1))
        return self.norm(h + F.elu(out))


class EtaModel(nn.Module):
    def __init__(self, features=12, dim=64, layers=3):
        super().__init__()
        self.encode = nn.Linear(features, dim)
        self.layers = nn.ModuleList(NeighbourAttention(dim) for _ in range(layers))
        self.minutes = nn.Linear(dim, 1)

    def forward(self, x, edges):
        h = F.relu(self.encode(x))
        for layer in self.layers:
            h = layer(h, edges)
        return self.minutes(h).squeeze(-1)


def city_snapshots(count, nodes, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        edges = torch.randint(nodes, (2, nodes * 5), generator=g)
        yield [t.to(DEVICE) for t in (torch.randn(nodes, 12, generator=g), edges, torch.rand(nodes, generator=g) * 60)]


def train_epoch(model, optimizer):
    model.train()
    for x, edges, minutes in city_snapshots(10, 12_000, seed=3):
        optimizer.zero_grad()
        loss = F.huber_loss(model(x, edges), minutes)
        loss.backward()
        optimizer.step()
    return loss.item()


def evaluate(model):
    model.eval()
    errors = []
    with evaluation_context():
        for x, edges, minutes in city_snapshots(20, 12_000, seed=99):
            errors.append((model(x, edges) - minutes).abs().mean())
    return torch.stack(errors).mean().item()


def main():
    model = EtaModel().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(2):
        loss = train_epoch(model, optimizer)
        print(f"epoch {epoch}  huber {loss:.3f}  mean error in minutes {evaluate(model):.2f}")


main()
