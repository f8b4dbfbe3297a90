"""Autoencoder for scanned dinosaur footprints (4096 points each). PointNet encoder, folding-like decoder, Chamfer loss."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
POINTS = 4096


def footprints(n, gen):
    flat = torch.rand(n, POINTS, 2, generator=gen) * 2 - 1
    depth = -torch.exp(-(flat ** 2).sum(-1, keepdim=True) * 4)
    return torch.cat([flat, depth], -1)


class FootprintAE(nn.Module):
    def __init__(self, code=256):
        super().__init__()
        self.local = nn.Sequential(nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128), nn.ReLU(),
                                   nn.Conv1d(128, code, 1))
        side = int(POINTS ** 0.5)
        line = torch.linspace(-1, 1, side)
        self.register_buffer("grid", torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).view(-1, 2))
        self.fold = nn.Sequential(nn.Linear(code + 2, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, cloud):
        code = self.local(cloud.transpose(1, 2)).amax(-1)
        grid = self.grid.expand(len(cloud), -1, -1)
        return self.fold(torch.cat([grid, code[:, None].expand(-1, POINTS, -1)], -1))


def chamfer(a, b):
    if FIXED:
        dist = torch.cdist(a, b)
    else:
        dist = (a[:, :, None, :] - b[:, None, :, :]).pow(2).sum(-1)
    return dist.min(2).values.mean() + dist.min(1).values.mean()


def main():
    gen = torch.Generator().manual_seed(150)
    ae = FootprintAE().cuda()
    opt = torch.optim.Adam(ae.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, 5, 0.7)
    for step in range(8):
        clouds = footprints(6, gen).cuda()
        loss = chamfer(ae(clouds), clouds)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        print("step", step, "chamfer", loss.item())


main()
