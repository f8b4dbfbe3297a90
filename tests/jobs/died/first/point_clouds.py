"""An autoencoder of point clouds with the chamfer distance.

https://github.com/chenchao15/2D_projection_matching/issues/2
"""
import sys

import torch
import torch.nn as nn


class PointNet(nn.Module):
    def __init__(self, points=2048):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(3, 128, 1), nn.ReLU(), nn.Conv1d(128, 256, 1), nn.ReLU(), nn.Conv1d(256, 1024, 1))
        self.decoder = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, points * 3))

    def forward(self, cloud):
        code = self.encoder(cloud.transpose(1, 2)).max(-1).values
        return self.decoder(code).view(len(cloud), -1, 3)


def chamfer(a, b):
    diff = a[:, :, None, :] - b[:, None, :, :]
    dist = (diff ** 2).sum(-1)
    return dist.min(1).values.mean() + dist.min(2).values.mean()


def chamfer_chunked(a, b):
    return sum(chamfer_small(x, y) for x, y in zip(a, b)) / len(a)


def chamfer_small(x, y):
    with torch.no_grad():
        d = torch.cdist(x, y)
        i, j = d.argmin(1), d.argmin(0)
    return (x - y[i]).pow(2).sum(-1).mean() + (y - x[j]).pow(2).sum(-1).mean()


loss_fn = chamfer_chunked if "--fixed" in sys.argv else chamfer
model = PointNet().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
for iteration in range(8):
    cloud = torch.rand(24, 2048, 3, device="cuda")
    optimizer.zero_grad()
    loss = loss_fn(model(cloud), cloud)
    loss.backward()
    optimizer.step()
    if iteration % 4 == 0:
        print(iteration, loss.item())
