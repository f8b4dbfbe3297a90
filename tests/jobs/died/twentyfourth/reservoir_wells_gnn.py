"""Surrogate of a reservoir simulator: pressure in the cells of an oil field after the next time step, by message passing between neighbours."""
import sys

import numpy as np
import torch
from torch import nn

FIXED = "--fixed" in sys.argv
NX, NY, NZ = 60, 60, 6
CELLS = NX * NY * NZ


def mlp(inputs, width, outputs):
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs), nn.LayerNorm(outputs))


class Exchange(nn.Module):
    """Flow across faces, then the new state of the cells."""

    def __init__(self, width):
        super().__init__()
        self.face, self.cell = mlp(3 * width, width, width), mlp(2 * width, width, width)

    def forward(self, cells, faces, left, right):
        faces = faces + self.face(torch.cat([faces, cells[left], cells[right]], 1))
        inflow = torch.zeros_like(cells).index_add(0, right, faces)
        return cells + self.cell(torch.cat([cells, inflow], 1)), faces


class Surrogate(nn.Module):
    def __init__(self, width=64, rounds=4):
        super().__init__()
        self.read_cells, self.read_faces = mlp(7, width, width), mlp(2, width, width)
        self.rounds = nn.ModuleList([Exchange(width) for _ in range(rounds)])
        self.pressure = nn.Linear(width, 1)

    def forward(self, cells, faces, left, right):
        c, f = self.read_cells(cells), self.read_faces(faces)
        for exchange in self.rounds:
            c, f = exchange(c, f, left, right)
        return self.pressure(c)


class Deck:
    """The simulator's output, as NumPy arrays."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        index = np.arange(CELLS).reshape(NX, NY, NZ)
        ends = [(index[:-1].ravel(), index[1:].ravel()), (index[:, :-1].ravel(), index[:, 1:].ravel()),
                (index[:, :, :-1].ravel(), index[:, :, 1:].ravel())]
        a, b = (np.concatenate(side) for side in zip(*ends))
        self.left, self.right = np.concatenate([a, b]), np.concatenate([b, a])

    def report(self):
        return self.random.random((CELLS, 7)), self.random.random((len(self.left), 2)), self.random.random((CELLS, 1))


def main():
    deck, surrogate = Deck(), Surrogate().cuda()
    if not FIXED:
        surrogate = surrogate.double()  # "mat1 and mat2 must have the same dtype" with the arrays of the deck
    left, right = torch.from_numpy(deck.left).cuda(), torch.from_numpy(deck.right).cuda()
    optimizer = torch.optim.Adam(surrogate.parameters(), lr=1e-3)
    for step in range(6):
        cells, faces, pressure = (torch.from_numpy(array) for array in deck.report())
        if FIXED:
            cells, faces, pressure = cells.float(), faces.float(), pressure.float()
        loss = nn.functional.mse_loss(surrogate(cells.cuda(), faces.cuda(), left, right), pressure.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "error", loss.item())


main()
