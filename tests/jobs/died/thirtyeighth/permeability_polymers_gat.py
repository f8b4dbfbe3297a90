"""Gas permeability of polymers from their graphs; attention over edges written with scatter so that PyG is not needed."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
DEV = "cuda"
MAX_EDGES = 4000


class EdgeAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.src, self.dst, self.val = (nn.Linear(dim, dim) for _ in range(3))
        self.a = nn.Parameter(torch.randn(heads, dim // heads) * 0.1)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, ei):
        i, j = ei
        n = x.size(0)
        e = F.leaky_relu(self.src(x)[j] + self.dst(x)[i], 0.2).view(-1, self.h, self.d)
        w = torch.exp((e * self.a).sum(-1).clamp(max=20))
        z = torch.zeros(n, self.h, device=x.device).index_add(0, i, w)
        m = self.val(x)[j].view(-1, self.h, self.d) * (w / (z[i] + 1e-9)).unsqueeze(-1)
        out = torch.zeros(n, self.h * self.d, device=x.device).index_add(0, i, m.reshape(-1, self.h * self.d))
        return self.norm(x + F.elu(out))


class PolyNet(nn.Module):
    def __init__(self, feats=24, dim=192, depth=4):
        super().__init__()
        self.inp = nn.Linear(feats, dim)
        self.layers = nn.ModuleList(EdgeAttention(dim) for _ in range(depth))
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.ELU(), nn.Linear(dim, 3))

    def forward(self, x, ei, graph, count):
        x = self.inp(x)
        for layer in self.layers:
            x = layer(x, ei)
        return self.out(torch.zeros(count, x.size(1), device=x.device).index_add(0, graph, x))


def read_polymers(n=160):
    g = torch.Generator().manual_seed(7)
    for k in range(n):
        atoms, bonds = (6000, 300_000) if k == 117 else (int(torch.randint(30, 90, (1,), generator=g)), 1500)   # periodic cells are big
        yield torch.randn(atoms, 24, generator=g), torch.randint(0, atoms, (2, bonds), generator=g), torch.randn(3, generator=g)


def thin(edges):
    if FIXED and edges.size(1) > MAX_EDGES:
        return edges[:, ::edges.size(1) // MAX_EDGES]
    return edges


def collate(polymers):
    xs, es, gs, ys, offset = [], [], [], [], 0
    for k, (x, e, y) in enumerate(polymers):
        xs.append(x), es.append(thin(e) + offset), gs.append(torch.full((len(x),), k)), ys.append(y)
        offset += len(x)
    return torch.cat(xs), torch.cat(es, 1), torch.cat(gs), torch.stack(ys)


def train():
    net = PolyNet().to(DEV)
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    data = list(read_polymers())
    for at in range(0, len(data), 16):
        x, e, g, y = (t.to(DEV) for t in collate(data[at:at + 16]))
        loss = F.huber_loss(net(x, e, g, len(y)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("polymers", at + 16, "loss", loss.item())


train()
