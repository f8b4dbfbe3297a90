"""Completes pots from scans of their sherds: a point cloud in, 3000 points of the whole pot out, trained with the Chamfer distance."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
SCANNED, WHOLE, BATCH = 1024, 3000, 24


class PointEncoder(nn.Module):
    """PointNet: the same layers for each point, and the largest value of each feature."""

    def __init__(self, width=512):
        super().__init__()
        self.near = nn.Sequential(nn.Conv1d(3, 128, 1), nn.ReLU(), nn.Conv1d(128, 256, 1))
        self.far = nn.Sequential(nn.Conv1d(512, 512, 1), nn.ReLU(), nn.Conv1d(512, width, 1))

    def forward(self, points):
        x = self.near(points.transpose(1, 2))
        top = x.amax(2, keepdim=True).expand_as(x)
        return self.far(torch.cat([x, top], 1)).amax(2)


class Completion(nn.Module):
    """The pot as a code, and the points from it."""

    def __init__(self):
        super().__init__()
        self.encoder = PointEncoder()
        self.decoder = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 3 * WHOLE))

    def forward(self, sherds):
        return self.decoder(self.encoder(sherds)).view(-1, WHOLE, 3)


def chamfer(a, b):
    difference = a.unsqueeze(2) - b.unsqueeze(1)
    distance = difference.pow(2).sum(-1)
    return distance.min(2).values.mean() + distance.min(1).values.mean()


def chamfer_by_index(a, b):
    """Finds the nearest points pot by pot without a graph, and differentiates only their distances."""
    total = 0
    for one, other in zip(a, b):
        with torch.no_grad():
            distance = torch.cdist(one, other)
            there, back = distance.argmin(1), distance.argmin(0)
        total = total + (one - other.index_select(0, there)).pow(2).sum(-1).mean() + (other - one.index_select(0, back)).pow(2).sum(-1).mean()
    return total / len(a)


def pots(generator):
    angle = torch.rand(BATCH, WHOLE, generator=generator) * 2 * torch.pi
    height = torch.rand(BATCH, WHOLE, generator=generator)
    radius = 0.5 + 0.2 * torch.sin(3 * height)
    whole = torch.stack([radius * angle.cos(), radius * angle.sin(), height], -1)
    return whole[:, :SCANNED].contiguous().cuda(), whole.cuda()


def main():
    torch.manual_seed(4)
    model = Completion().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    generator = torch.Generator().manual_seed(44)
    distance = chamfer_by_index if FIXED else chamfer
    for step in range(6):
        sherds, whole = pots(generator)
        loss = distance(model(sherds), whole)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} chamfer {loss.item():.5f}")


if __name__ == "__main__":
    main()
