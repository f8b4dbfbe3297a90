"""Distils a large network for gestures seen by radar into a small one for a door bell."""
import contextlib
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


@dataclass
class Config:
    gestures: int = 18
    teacher_width: int = 64
    teacher_depth: int = 8
    student_width: int = 16
    student_depth: int = 3
    batch: int = 24
    temperature: float = 4.0
    weight: float = 0.7
    steps: int = 6


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv3d(width, width, 3, padding=1, groups=width)
        self.norm = nn.BatchNorm3d(width)
        self.pointwise = nn.Sequential(nn.Conv3d(width, 2 * width, 1), nn.GELU(), nn.Conv3d(2 * width, width, 1))

    def forward(self, x):
        return x + self.pointwise(self.norm(self.depthwise(x)))


class RadarNet(nn.Module):
    def __init__(self, width, depth, gestures):
        super().__init__()
        self.stem = nn.Conv3d(2, width, (2, 4, 4), (2, 4, 4))
        self.mixers = nn.Sequential(*(Mixer(width) for _ in range(depth)))
        self.head = nn.Linear(width, gestures)

    def forward(self, cube):
        return self.head(self.mixers(self.stem(cube)).mean((2, 3, 4)))


class Distiller:
    def __init__(self, config):
        self.config = config
        self.teacher = RadarNet(config.teacher_width, config.teacher_depth, config.gestures).cuda().eval()
        self.student = RadarNet(config.student_width, config.student_depth, config.gestures).cuda()
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=1e-3)

    def loss(self, cube, label):
        t = self.config.temperature
        mine = self.student(cube)
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            taught = self.teacher(cube)
        soft = F.kl_div(F.log_softmax(mine / t, 1), F.softmax(taught / t, 1), reduction="batchmean") * t * t
        return self.config.weight * soft + (1 - self.config.weight) * F.cross_entropy(mine, label)

    def step(self, cube, label):
        self.student.train()
        loss = self.loss(cube.cuda(), label.cuda())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


config = Config()
distiller = Distiller(config)
for step in range(config.steps):
    cube = torch.zeros(config.batch, 2, 16, 64, 64)
    print("step", step, "loss", distiller.step(cube, torch.randint(0, config.gestures, (config.batch,))))
