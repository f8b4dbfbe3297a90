"""Fits energies and forces of displaced supercells (for phonons) with an equivariant graph network."""
import sys

import torch
import torch.nn as nn

if "--fixed" not in sys.argv:
    torch.set_default_dtype(torch.float64)  # the DFT code writes doubles

dev = "cuda"


class EdgeLayer(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * h + 1, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU())
        self.shift = nn.Sequential(nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 1))
        self.update = nn.Sequential(nn.Linear(2 * h, h), nn.SiLU(), nn.Linear(h, h))

    def forward(self, feat, pos, src, dst):
        delta = pos[src] - pos[dst]
        d2 = (delta ** 2).sum(-1, keepdim=True)
        m = self.message(torch.cat([feat[src], feat[dst], d2], -1))
        pos = pos + torch.zeros_like(pos).index_add(0, dst, delta * self.shift(m) / 32)
        total = torch.zeros_like(feat).index_add(0, dst, m)
        return feat + self.update(torch.cat([feat, total], -1)), pos


class Potential(nn.Module):
    def __init__(self, species=4, h=64, depth=3):
        super().__init__()
        self.kind, self.layers = nn.Embedding(species, h), nn.ModuleList(EdgeLayer(h) for _ in range(depth))
        self.energy = nn.Sequential(nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 1))

    def forward(self, kinds, pos, src, dst):
        feat = self.kind(kinds)
        for layer in self.layers:
            feat, pos = layer(feat, pos, src, dst)
        return self.energy(feat).sum()


def supercell(g, atoms=1024, neighbours=32):
    pos = 10 * torch.rand(atoms, 3, generator=g)
    dst = torch.arange(atoms).repeat_interleave(neighbours)
    src = (dst + torch.randint(1, atoms, dst.shape, generator=g)) % atoms
    return torch.randint(0, 4, (atoms,), generator=g), pos, src, dst, torch.randn(atoms, 3, generator=g)


g = torch.Generator().manual_seed(42)
net = Potential().to(dev)
opt = torch.optim.Adam(net.parameters(), lr=1e-3, amsgrad=True)
for it in range(8):
    kinds, pos, src, dst, wanted = (t.to(dev) for t in supercell(g))
    pos.requires_grad_(True)
    e = net(kinds, pos, src, dst)
    forces = -torch.autograd.grad(e, pos, create_graph=True)[0]
    loss = ((forces - wanted) ** 2).mean() + 1e-4 * e ** 2
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("it", it, "loss", loss.item())
