"""Transformer over merger trees of dark-matter haloes: predicts the stellar mass at redshift 0 from the branch histories."""
import sys

import numpy as np
import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
SNAPSHOTS, BRANCHES, PROPS = 48, 8, 11


def trees(count, seed):
    """As the tables of the simulation come: float64."""
    rng = np.random.default_rng(seed)
    growth = np.cumsum(rng.exponential(0.1, (count, BRANCHES, SNAPSHOTS, PROPS)), axis=2)
    return growth, np.log10(1 + growth[:, :, -1, 0].sum(1))


class TreeTransformer(nn.Module):
    def __init__(self, dim=256, heads=8, depth=6):
        super().__init__()
        self.lift = nn.Linear(PROPS, dim)
        self.when = nn.Parameter(torch.randn(1, 1, SNAPSHOTS, dim) * 0.02)
        self.branch = nn.Parameter(torch.randn(1, BRANCHES, 1, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.mass = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, 1))

    def forward(self, tree):
        x = self.lift(tree) + self.when + self.branch
        return self.mass(self.encoder(x.flatten(1, 2)).mean(1)).squeeze(-1)


model = TreeTransformer().cuda()
if not FIXED:
    model = model.double()
kind = torch.float32 if FIXED else torch.float64
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
x, y = trees(64, 0)
mean, std = x.mean((0, 1, 2)), x.std((0, 1, 2))
for step in range(8):
    rows = np.random.default_rng(step).integers(0, len(x), 24)
    tree = torch.as_tensor((x[rows] - mean) / std, dtype=kind).cuda()
    mass = torch.as_tensor(y[rows], dtype=kind).cuda()
    loss = nn.functional.mse_loss(model(tree), mass)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "mse", loss.item())
