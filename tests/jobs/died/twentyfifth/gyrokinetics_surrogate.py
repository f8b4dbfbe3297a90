"""Autoregressive surrogate of gyrokinetic turbulence (density and potential on flux-tube planes).

Following the pushforward idea, the network is first run for a few steps from the simulated state, so that it sees its own errors,
and the loss is that of one more step.
"""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Setup:
    planes: int = 16
    nx: int = 96
    ny: int = 96
    fields: int = 2
    hidden: int = 48
    warmup: int = 5
    detach_warmup: bool = "--fixed" in sys.argv
    steps: int = 6


class PeriodicConv(nn.Module):
    def __init__(self, cin, cout, dilation=1):
        super().__init__()
        self.pad = dilation
        self.conv = nn.Conv2d(cin, cout, 3, dilation=dilation)

    def forward(self, x):
        return self.conv(F.pad(x, (self.pad,) * 4, mode="circular"))


class DilatedResidual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.GroupNorm(8, c)
        self.convs = nn.ModuleList(PeriodicConv(c, c, d) for d in (1, 2, 4, 2))

    def forward(self, x):
        y = self.norm(x)
        for conv in self.convs:
            y = F.silu(conv(y))
        return x + y


class Surrogate(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.lift = PeriodicConv(cfg.fields + 2, cfg.hidden)
        self.body = nn.Sequential(*[DilatedResidual(cfg.hidden) for _ in range(3)])
        self.drop = nn.Conv2d(cfg.hidden, cfg.fields, 1)

    def forward(self, state, gradients):
        drive = gradients[:, :, None, None].expand(-1, -1, *state.shape[-2:])
        return state + self.drop(self.body(self.lift(torch.cat([state, drive], 1))))


def window(cfg, gen):
    flow = torch.randn(cfg.planes, cfg.warmup + 2, cfg.fields, cfg.nx, cfg.ny, generator=gen)
    return flow.cumsum(1) * 0.05, torch.rand(cfg.planes, 2, generator=gen)


def pushed(net, state, gradients, cfg):
    for _ in range(cfg.warmup):
        if cfg.detach_warmup:
            with torch.no_grad():
                state = net(state, gradients)
        else:
            state = net(state, gradients)
    return state


cfg = Setup()
gen = torch.Generator().manual_seed(11)
net = Surrogate(cfg).to("cuda")
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2e-3, total_steps=cfg.steps)
for step in range(cfg.steps):
    flow, gradients = (t.to("cuda") for t in window(cfg, gen))
    state = pushed(net, flow[:, 0], gradients, cfg)
    loss = F.mse_loss(net(state, gradients), flow[:, -1]) / flow[:, -1].var()
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    print("step", step, "normalised error", loss.item())
