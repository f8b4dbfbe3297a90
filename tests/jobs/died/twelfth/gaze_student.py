"""Trains a small gaze estimator for phones on the features and answers of a large one that was trained on a desk's cameras."""
import contextlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class Unit(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.SiLU(),
                                    nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width))
        self.short = nn.Conv2d(before, width, 1, stride) if (before, stride) != (width, 1) else nn.Identity()

    def forward(self, x):
        return F.silu(self.layers(x) + self.short(x))


class GazeNet(nn.Module):
    def __init__(self, widths, depth):
        super().__init__()
        stages, before = [], 3
        for width in widths:
            stages.append(nn.Sequential(Unit(before, width, 2), *[Unit(width, width, 1) for _ in range(depth - 1)]))
            before = width
        self.stages = nn.ModuleList(stages)
        self.gaze = nn.Linear(before, 2)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        feature = x.mean((2, 3))
        return self.gaze(feature), feature


class Distiller:
    def __init__(self, teacher, student):
        self.teacher, self.student = teacher.cuda().eval(), student.cuda()
        self.match = nn.Linear(student.gaze.in_features, teacher.gaze.in_features).cuda()
        self.optimizer = torch.optim.AdamW([*self.student.parameters(), *self.match.parameters()], lr=1e-3)

    def step(self, eyes, truth):
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            target, feature = self.teacher(eyes)
        gaze, mine = self.student(eyes)
        loss = F.l1_loss(gaze, truth) + 0.5 * F.mse_loss(gaze, target) + 0.1 * (1 - F.cosine_similarity(self.match(mine), feature).mean())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    torch.manual_seed(0)
    distiller = Distiller(GazeNet((64, 128, 256, 512), 4), GazeNet((16, 32, 64, 96), 2))
    for step in range(4):
        eyes, truth = torch.rand(48, 3, 112, 112).cuda(), torch.rand(48, 2).cuda()
        print(step, distiller.step(eyes, truth))


main()
