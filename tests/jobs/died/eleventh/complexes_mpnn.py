"""Predicts binding energies of molecular complexes with a message passing network."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv
LIMIT = 400  # atoms; larger complexes are cut down to the pocket around the ligand
WIDTH = 96


class Complexes(Dataset):
    def __init__(self, n=120):
        generator = torch.Generator().manual_seed(9)
        self.sizes = torch.randint(120, 380, (n,), generator=generator).tolist()
        self.sizes[67] = 11000  # a whole capsid was among the files
        if FIXED:
            self.sizes = [min(size, LIMIT) for size in self.sizes]

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, k):
        atoms = self.sizes[k]
        source = torch.arange(atoms).repeat_interleave(16)
        target = (source + torch.arange(1, 17).repeat(atoms)) % atoms
        return {"kinds": torch.arange(atoms) % 20, "edges": torch.stack([source, target]),
                "distances": torch.rand(len(source)) * 5, "energy": 0.3 * (k % 9)}


def collate(graphs):
    offset, edges, owner = 0, [], []
    for n, graph in enumerate(graphs):
        edges.append(graph["edges"] + offset)
        owner.append(torch.full((len(graph["kinds"]),), n))
        offset += len(graph["kinds"])
    energy = torch.tensor([g["energy"] for g in graphs])
    return torch.cat([g["kinds"] for g in graphs]), torch.cat(edges, 1), torch.cat([g["distances"] for g in graphs]), torch.cat(owner), energy


class Interaction(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * WIDTH + 32, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.update = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x, edges, radial):
        source, target = edges
        messages = self.message(torch.cat([x[source], x[target], radial], -1))
        gathered = torch.zeros_like(x).index_add(0, target, messages)
        return x + self.update(torch.cat([x, gathered], -1))


class BindingNet(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.embed = nn.Embedding(20, WIDTH)
        self.register_buffer("centers", torch.linspace(0, 5, 32))
        self.layers = nn.ModuleList(Interaction() for _ in range(layers))
        self.readout = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 1))

    def forward(self, kinds, edges, distances, owner, graphs):
        radial = torch.exp(-4 * (distances[:, None] - self.centers).square())
        x = self.embed(kinds)
        for layer in self.layers:
            x = layer(x, edges, radial)
        each = self.readout(x).squeeze(-1)
        return torch.zeros(graphs, device=each.device).index_add(0, owner, each)


def main():
    model = BindingNet().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    loader = DataLoader(Complexes(), batch_size=12, collate_fn=collate)
    for step, (kinds, edges, distances, owner, energy) in enumerate(loader):
        predicted = model(kinds.cuda(), edges.cuda(), distances.cuda(), owner.cuda(), len(energy))
        loss = (predicted - energy.cuda()).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step %d: %d atoms, loss %.3f" % (step, len(kinds), loss.item()))


main()
