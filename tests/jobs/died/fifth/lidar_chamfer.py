"""Completes lidar scans: a PointNet autoencoder trained with the chamfer distance between clouds."""
import sys

import torch
import torch.nn as nn


def chamfer(a, b):
    """The mean distance of each point to the nearest of the other cloud, both ways."""
    if "--fixed" in sys.argv:
        d = torch.cdist(a, b) ** 2
    else:
        d = ((a[:, :, None, :] - b[:, None, :, :]) ** 2).sum(-1)
    return d.min(2).values.mean() + d.min(1).values.mean()


class Encoder(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.local = nn.Sequential(nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128), nn.ReLU())
        self.world = nn.Sequential(nn.Conv1d(256, 256, 1), nn.BatchNorm1d(256), nn.ReLU(), nn.Conv1d(256, code, 1))

    def forward(self, points):
        x = self.local(points.transpose(1, 2))
        x = torch.cat([x, x.max(2, keepdim=True).values.expand_as(x)], 1)
        return self.world(x).max(2).values


class Decoder(nn.Module):
    def __init__(self, code, points):
        super().__init__()
        self.points = points
        self.net = nn.Sequential(nn.Linear(code, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, points * 3))

    def forward(self, code):
        return self.net(code).view(-1, self.points, 3)


class Completion(nn.Module):
    def __init__(self, code=512, points=2048):
        super().__init__()
        self.encoder, self.decoder = Encoder(code), Decoder(code, points)

    def forward(self, partial):
        return self.decoder(self.encoder(partial))


def scans(batch, n):
    generator = torch.Generator().manual_seed(0)
    for _ in range(n):
        whole = torch.rand(batch, 2048, 3, generator=generator)
        yield whole[:, :1024], whole


model = Completion().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.99))
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.7)
for epoch in range(2):
    for partial, whole in scans(16, 4):
        optimizer.zero_grad()
        loss = chamfer(model(partial.cuda()), whole.cuda())
        loss.backward()
        optimizer.step()
    schedule.step()
    print("epoch", epoch, "chamfer", loss.item())
