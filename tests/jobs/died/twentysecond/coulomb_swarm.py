# Charged dust grains in a plasma: learn each grain's charge and the screening length from the measured forces.
import sys

import numpy as np
import torch

fixed = "--fixed" in sys.argv
N = 4800
ROWS = 300 if fixed else N

rs = np.random.RandomState(12)
position = torch.from_numpy(rs.uniform(0, 40, (N, 3)).astype(np.float32)).cuda()
size = torch.from_numpy(rs.lognormal(0, 0.3, (N, 1)).astype(np.float32)).cuda()
measured = torch.from_numpy(rs.normal(0, 1, (N, 3)).astype(np.float32)).cuda()

charge_of_size = torch.nn.Sequential(torch.nn.Linear(1, 64), torch.nn.SiLU(), torch.nn.Linear(64, 64), torch.nn.SiLU(), torch.nn.Linear(64, 1)).cuda()
log_debye = torch.nn.Parameter(torch.zeros((), device="cuda"))
opt = torch.optim.Adam([*charge_of_size.parameters(), log_debye], lr=1e-2)


def yukawa_force(rows):
    """Force on the grains of `rows` by all grains."""
    charge = charge_of_size(size).squeeze(-1)
    away = position[rows, None, :] - position[None, :, :]
    r = (away.pow(2).sum(-1) + 1e-2).sqrt()
    k = torch.exp(-log_debye)
    strength = charge[rows, None] * charge[None, :] * torch.exp(-k * r) * (1 + k * r) / r ** 2
    return (strength[..., None] * away / r[..., None]).sum(1)


for step in range(10):
    opt.zero_grad()
    total = 0.0
    for first in range(0, N, ROWS):
        rows = slice(first, first + ROWS)
        loss = (yukawa_force(rows) - measured[rows]).pow(2).sum() / N
        loss.backward()
        total += loss.item()
    opt.step()
    if step % 3 == 0:
        print("step", step, "misfit", total, "screening length", log_debye.exp().item())
