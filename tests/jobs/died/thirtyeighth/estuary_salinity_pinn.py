"""Salt intrusion in an estuary: advection-diffusion in (x, z, t), solved with a physics-informed network and learned dispersion."""
import sys

import torch
import torch.nn as nn

torch.set_default_dtype(torch.float32 if "--fixed" in sys.argv else torch.float64)
dev = torch.device("cuda")
gen = torch.Generator().manual_seed(6)


class Salt(nn.Module):
    def __init__(self, width=256, depth=6):
        super().__init__()
        layers = [nn.Linear(3, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))
        self.log_kx = nn.Parameter(torch.tensor(0.0))
        self.log_kz = nn.Parameter(torch.tensor(-4.0))

    def forward(self, p):
        return self.net(p)


def d(f, p):
    return torch.autograd.grad(f, p, torch.ones_like(f), create_graph=True)[0]


def residual(salt, p):
    p = p.requires_grad_(True)
    s = salt(p)
    first = d(s, p)
    sx, sz, st = first.unbind(-1)
    sxx, szz = d(sx, p)[:, 0], d(sz, p)[:, 1]
    tide = 0.8 * torch.sin(12.4 * p[:, 2]) * (1 - p[:, 1] ** 2)
    return st + tide * sx - salt.log_kx.exp() * sxx - salt.log_kz.exp() * szz


def sample(n):
    inside = torch.rand(n, 3, generator=gen)
    mouth = torch.rand(n // 8, 3, generator=gen)
    mouth[:, 0] = 0
    start = torch.rand(n // 8, 3, generator=gen)
    start[:, 2] = 0
    return inside.to(dev), mouth.to(dev), start.to(dev)


salt = Salt().to(dev)
optimizer = torch.optim.Adam(salt.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
for it in range(6):
    inside, mouth, start = sample(16000)
    pde = residual(salt, inside).pow(2).mean()
    boundary = (salt(mouth) - 1).pow(2).mean() + (salt(start)[:, 0] - torch.exp(-4 * start[:, 0])).pow(2).mean()
    loss = pde + 10 * boundary
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(it, "pde", pde.item(), "boundary", boundary.item())
