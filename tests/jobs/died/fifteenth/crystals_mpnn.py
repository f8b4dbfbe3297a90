"""Formation energies of crystals from their graphs (gated convolutions over 12 neighbours of each atom)."""
import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--hidden", type=int, default=96)
parser.add_argument("--layers", type=int, default=4)
args = parser.parse_args()

BATCH = 128 if args.fixed else 768
NEIGHBOURS, GAUSSIANS = 12, 40


class GatedConv(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.full = nn.Linear(2 * hidden + GAUSSIANS, 2 * hidden)
        self.norm_edges, self.norm_nodes = nn.BatchNorm1d(2 * hidden), nn.BatchNorm1d(hidden)
        self.softplus = nn.Softplus()

    def forward(self, atoms, bonds, source, target):
        z = torch.cat([atoms[target], atoms[source], bonds], dim=-1)
        gate, core = self.norm_edges(self.full(z)).chunk(2, dim=-1)
        message = torch.sigmoid(gate) * self.softplus(core)
        total = torch.zeros_like(atoms).index_add(0, target, message)
        return self.softplus(atoms + self.norm_nodes(total))


class CrystalNet(nn.Module):
    def __init__(self, hidden, layers):
        super().__init__()
        self.element = nn.Embedding(100, hidden)
        self.convs = nn.ModuleList([GatedConv(hidden) for _ in range(layers)])
        self.readout = nn.Sequential(nn.Linear(hidden, hidden), nn.Softplus(), nn.Linear(hidden, 1))

    def forward(self, graph):
        h = self.element(graph["z"])
        for conv in self.convs:
            h = conv(h, graph["bonds"], graph["source"], graph["target"])
        pooled = torch.zeros(graph["crystals"], h.shape[-1], device=h.device).index_add(0, graph["owner"], h)
        return self.readout(pooled / graph["sizes"][:, None]).squeeze(-1)


def collate(count, generator):
    sizes = torch.randint(30, 50, (count,), generator=generator)
    atoms = int(sizes.sum())
    owner = torch.repeat_interleave(torch.arange(count), sizes)
    target = torch.arange(atoms).repeat_interleave(NEIGHBOURS)
    first = torch.cumsum(sizes, 0) - sizes
    source = first[owner[target]] + torch.randint(0, 30, (atoms * NEIGHBOURS,), generator=generator)
    distance = torch.rand(atoms * NEIGHBOURS, 1, generator=generator) * 8
    bonds = torch.exp(-((distance - torch.linspace(0, 8, GAUSSIANS)) ** 2) / 0.04)
    graph = {"z": torch.randint(1, 95, (atoms,), generator=generator), "bonds": bonds, "source": source, "target": target,
             "owner": owner, "sizes": sizes.float()}
    graph = {k: v.cuda() for k, v in graph.items()}
    graph["crystals"] = count
    return graph, torch.randn(count, generator=generator).cuda()


model = CrystalNet(args.hidden, args.layers).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-5)
generator = torch.Generator().manual_seed(0)
for step in range(6):
    graph, energy = collate(BATCH, generator)
    loss = nn.functional.l1_loss(model(graph), energy)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    print(f"step {step} MAE {loss.item():.3f} eV per atom")
