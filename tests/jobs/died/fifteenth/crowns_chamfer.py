# autoencoder for lidar scans of tree crowns, chamfer distance between scan and reconstruction
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
N_POINTS = 2048


def chamfer(a, b):
    """a: (B, N, 3), b: (B, M, 3)"""
    if FIXED:
        d = torch.cdist(a, b).pow(2)
    else:
        d = ((a[:, :, None, :] - b[:, None, :, :]) ** 2).sum(-1)
    return d.min(2).values.mean() + d.min(1).values.mean()


class PointEncoder(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(3, 64, 1), nn.ReLU(), nn.Conv1d(64, 128, 1), nn.ReLU(), nn.Conv1d(128, code, 1))

    def forward(self, points):
        return self.net(points.transpose(1, 2)).max(-1).values


class PointDecoder(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(code, 512), nn.ReLU(), nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, N_POINTS * 3))

    def forward(self, code):
        return self.net(code).view(-1, N_POINTS, 3)


def crowns(batch, g):
    direction = torch.nn.functional.normalize(torch.randn(batch, N_POINTS, 3, generator=g), dim=-1)
    radius = 1 + 0.2 * torch.rand(batch, N_POINTS, 1, generator=g)
    return direction * radius * torch.tensor([1.0, 1.0, 1.6])


if __name__ == "__main__":
    g = torch.Generator().manual_seed(2)
    enc, dec = PointEncoder(256).cuda(), PointDecoder(256).cuda()
    opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=5e-4)
    sched = torch.optim.lr_scheduler.StepLR(opt, 10, 0.5)
    for it in range(15):
        scan = crowns(12, g).cuda()
        loss = chamfer(dec(enc(scan)), scan)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if it % 5 == 0:
            print("it", it, "chamfer", loss.item())
