"""
Surrogate for seepage under an earth dam. Input: log-permeability, water levels and geometry on a 192 x 192 grid (from the
finite-element solver, NumPy); output: hydraulic head and the two components of the flux.
"""
import sys

import numpy as np
import torch
from torch import nn

FIXED = "--fixed" in sys.argv


def solver_output(n, seed):
    rng = np.random.default_rng(seed)
    fields = rng.normal(size=(n, 4, 192, 192))
    heads = np.cumsum(rng.normal(size=(n, 3, 192, 192)), axis=-1) / 100.0
    return torch.from_numpy(fields), torch.from_numpy(heads)


class Residual(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.a = nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation)
        self.b = nn.Conv2d(width, width, 1)

    def forward(self, x):
        return x + self.b(nn.functional.gelu(self.a(self.norm(x))))


class Surrogate(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.lift = nn.Conv2d(4, width, 1)
        self.blocks = nn.Sequential(*[Residual(width, d) for d in (1, 2, 4, 8, 16, 8, 4, 2)])
        self.project = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        return self.project(self.blocks(self.lift(x)))


def relative_l2(a, b):
    return ((a - b).flatten(1).norm(dim=1) / b.flatten(1).norm(dim=1)).mean()


def main():
    fields, heads = solver_output(48, 0)
    model = Surrogate()
    # RuntimeError: Input type (double) and bias type (float) should be the same
    if FIXED:
        fields, heads = fields.float(), heads.float()
    else:
        model = model.double()
    model = model.cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(fields, heads), batch_size=6, shuffle=True)
    for epoch in range(2):
        for x, y in loader:
            loss = relative_l2(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "relative error", loss.item())


if __name__ == "__main__":
    main()
