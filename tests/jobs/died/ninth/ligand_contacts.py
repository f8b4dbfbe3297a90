"""Scores how well small molecules fit into pockets of proteins: embeddings of atoms and residues, and a contact energy over all pairs."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
BATCH, ATOMS, RESIDUES, DIM = 16, 96, 640, 64


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.SiLU()]
    return nn.Sequential(*layers[:-1])


class Encoder(nn.Module):
    def __init__(self, kinds, layers):
        super().__init__()
        self.table = nn.Embedding(kinds, 256)
        block = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(block, layers)
        self.out = nn.Linear(256, DIM)

    def forward(self, kinds, positions):
        return self.out(self.layers(self.table(kinds) + positions.norm(dim=-1, keepdim=True)))


class Contacts(nn.Module):
    def __init__(self):
        super().__init__()
        self.atoms, self.residues = Encoder(40, 3), Encoder(22, 3)
        self.energy = mlp(DIM, 128, 1)

    def distances(self, a, b):
        if FIXED:
            return torch.cdist(a, b)
        difference = a[:, :, None, :] - b[:, None, :, :]
        return difference.pow(2).sum(-1).add(1e-6).sqrt()

    def forward(self, ligand, pocket):
        a, r = self.atoms(*ligand), self.residues(*pocket)
        near = torch.exp(-self.distances(a, r))
        pooled = torch.bmm(near, r) / RESIDUES
        return self.energy(pooled + a).sum((1, 2))


def complexes(generator):
    ligand = torch.randint(0, 40, (BATCH, ATOMS), generator=generator), torch.randn(BATCH, ATOMS, 3, generator=generator)
    pocket = torch.randint(0, 22, (BATCH, RESIDUES), generator=generator), torch.randn(BATCH, RESIDUES, 3, generator=generator)
    return ligand, pocket, torch.randn(BATCH, generator=generator)


def to_gpu(pair):
    return tuple(t.to("cuda") for t in pair)


def main():
    generator = torch.Generator().manual_seed(11)
    model = Contacts().to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    for step in range(5):
        ligand, pocket, affinity = complexes(generator)
        optimizer.zero_grad()
        predicted = model(to_gpu(ligand), to_gpu(pocket))
        loss = nn.functional.smooth_l1_loss(predicted, affinity.to("cuda"))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(step, "loss", loss.item())


main()
