"""Plans paths of a robot arm with diffusion: a temporal U-Net removes noise from trajectories; every epoch ends with a few plans for the log."""
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
STEPS, HORIZON, JOINTS = 50, 128, 14


class Residual(nn.Module):
    def __init__(self, cin, cout, time):
        super().__init__()
        self.a = nn.Sequential(nn.Conv1d(cin, cout, 5, 1, 2), nn.GroupNorm(8, cout), nn.Mish())
        self.b = nn.Sequential(nn.Conv1d(cout, cout, 5, 1, 2), nn.GroupNorm(8, cout), nn.Mish())
        self.time = nn.Linear(time, cout)
        self.skip = nn.Conv1d(cin, cout, 1)

    def forward(self, x, t):
        return self.b(self.a(x) + self.time(t)[:, :, None]) + self.skip(x)


class TemporalUnet(nn.Module):
    def __init__(self, w=64, time=64):
        super().__init__()
        self.dim = time
        self.mlp = nn.Sequential(nn.Linear(time, 4 * time), nn.Mish(), nn.Linear(4 * time, time))
        self.d1, self.d2, self.d3 = Residual(JOINTS, w, time), Residual(w, 2 * w, time), Residual(2 * w, 4 * w, time)
        self.u2, self.u1 = Residual(6 * w, 2 * w, time), Residual(3 * w, w, time)
        self.out = nn.Conv1d(w, JOINTS, 1)

    def embed(self, t):
        rates = torch.exp(torch.arange(self.dim // 2, device=t.device) * (-math.log(1e4) / (self.dim // 2)))
        angles = t[:, None].float() * rates
        return self.mlp(torch.cat([angles.sin(), angles.cos()], 1))

    def forward(self, x, t):
        t = self.embed(t)
        a = self.d1(x, t)
        b = self.d2(F.avg_pool1d(a, 2), t)
        c = self.d3(F.avg_pool1d(b, 2), t)
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], 1), t)
        return self.out(self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1), t))


class Diffusion:
    def __init__(self):
        self.net = TemporalUnet().cuda()
        betas = torch.linspace(1e-4, 0.05, STEPS)
        self.betas, self.alphas = betas.cuda(), (1 - betas).cuda()
        self.bar = torch.cumprod(1 - betas, 0).cuda()

    def loss(self, x):
        t = torch.randint(0, STEPS, (len(x),)).cuda()
        bar = self.bar.index_select(0, t)[:, None, None]
        noise = torch.randn_like(x)
        return F.mse_loss(self.net(bar.sqrt() * x + (1 - bar).sqrt() * noise, t), noise)

    def plan(self, n, start):
        x = torch.randn(n, JOINTS, HORIZON, device="cuda")
        for i in reversed(range(STEPS)):
            x = torch.cat([start[:, :, None].expand(n, -1, 1), x[:, :, 1:]], 2)
            e = self.net(x, torch.full((n,), i, device="cuda"))
            x = (x - self.betas[i] / (1 - self.bar[i]).sqrt() * e) / self.alphas[i].sqrt()
            if i:
                x = x + self.betas[i].sqrt() * torch.randn_like(x)
        return x


if FIXED:
    Diffusion.plan = torch.no_grad()(Diffusion.plan)

diffusion = Diffusion()
optimizer = torch.optim.Adam(diffusion.net.parameters(), lr=2e-4)
for epoch in range(2):
    for _ in range(4):
        loss = diffusion.loss(torch.zeros(64, JOINTS, HORIZON).cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    plans = diffusion.plan(16, torch.zeros(1, JOINTS, device="cuda"))
    print("epoch", epoch, "loss", loss.item(), "length of the plans", plans.diff(dim=2).norm(dim=1).sum(1).mean().item())
