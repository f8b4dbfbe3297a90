"""Which sinkhole feeds which spring?  Both are embedded from tracer chemistry, pairs of the same conduit are pulled together."""
import sys

import torch
import torch.nn as nn


class ChemEncoder(nn.Module):
    def __init__(self, ions=37, dim=160):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(ions, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, dim))

    def forward(self, x):
        return self.f(torch.log1p(x))


def sq_dist(u, v):
    if "--fixed" in sys.argv:
        return u.pow(2).sum(1, keepdim=True) + v.pow(2).sum(1) - 2 * u @ v.t()
    return ((u.unsqueeze(1) - v.unsqueeze(0)) ** 2).sum(dim=-1)


def soft_match(u, v, tau=0.2):
    d = sq_dist(u, v)
    same = torch.arange(len(u), device=u.device)
    return 0.5 * (nn.functional.cross_entropy(-d / tau, same) + nn.functional.cross_entropy(-d.t() / tau, same))


g = torch.Generator().manual_seed(6)
sinks, springs = ChemEncoder().cuda(), ChemEncoder().cuda()
params = [*sinks.parameters(), *springs.parameters()]
opt = torch.optim.Adam(params, lr=1e-3)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.97)

for epoch in range(4):
    running = 0.0
    for _ in range(3):
        a = torch.rand(1400, 37, generator=g)
        b = (a + 0.1 * torch.rand(1400, 37, generator=g))
        loss = soft_match(sinks(a.cuda()), springs(b.cuda()))
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item()
    sched.step()
    print("epoch", epoch, "loss", running / 3)
