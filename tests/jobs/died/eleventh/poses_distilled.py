"""Distils a large network for heatmaps of human joints into one for phones: mean squared error to the teacher's heatmaps and to the labels."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

JOINTS = 17


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.b = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return F.relu(x + self.b(self.a(x)))


class PoseNet(nn.Module):
    """Keeps a quarter of the resolution from start to end, beside a branch of an eighth."""

    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                  nn.Conv2d(width, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.high = nn.ModuleList(Residual(width) for _ in range(depth))
        self.low = nn.ModuleList(Residual(2 * width) for _ in range(depth))
        self.down, self.up = nn.Conv2d(width, 2 * width, 3, 2, 1), nn.Conv2d(2 * width, width, 1)
        self.head = nn.Conv2d(width, JOINTS, 1)

    def forward(self, x):
        high = self.stem(x)
        low = self.down(high)
        for h, lo in zip(self.high, self.low):
            high, low = h(high), lo(low)
        return self.head(high + F.interpolate(self.up(low), scale_factor=2, mode="bilinear", align_corners=False))


class Distiller:
    def __init__(self, no_teacher_grad):
        self.teacher = PoseNet(64, 6).cuda().eval()
        self.student = PoseNet(24, 3).cuda()
        self.optimizer = torch.optim.Adam(self.student.parameters(), lr=1e-3)
        self.no_teacher_grad = no_teacher_grad

    def soft_targets(self, images):
        if self.no_teacher_grad:
            with torch.no_grad():
                return self.teacher(images)
        return self.teacher(images)

    def step(self, images, heatmaps, weight):
        target = self.soft_targets(images)
        predicted = self.student(images)
        hard = (weight * (predicted - heatmaps).square()).mean()
        soft = F.mse_loss(predicted, target.detach())
        loss = 0.5 * hard + 0.5 * soft
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def people(n, batch=12):
    images, heatmaps = torch.rand(batch, 3, 256, 192), torch.zeros(batch, JOINTS, 64, 48)
    visible = torch.ones(batch, JOINTS, 1, 1)
    for _ in range(n):
        yield images.cuda(), heatmaps.cuda(), visible.cuda()


if __name__ == "__main__":
    distiller = Distiller("--fixed" in sys.argv)
    for step, batch in enumerate(people(6)):
        print("step", step, "loss", distiller.step(*batch))
