"""Classifies galaxies of a sky survey by their shape with a ResNet written by hand."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    batch: int = 64 if "--fixed" in sys.argv else 256
    pixels: int = 128
    classes: int = 10
    widths: tuple = (48, 96, 192, 384)
    lr: float = 0.05
    epochs: int = 2


class Survey(Dataset):
    def __init__(self, n, pixels):
        self.n, self.pixels = n, pixels

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.full((3, self.pixels, self.pixels), i / self.n), i % 10


class Block(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.short = nn.Identity() if inner == outer and stride == 1 else nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, cfg.widths[0], 5, 2, 2, bias=False), nn.BatchNorm2d(cfg.widths[0]), nn.ReLU())
        blocks, inner = [], cfg.widths[0]
        for k, width in enumerate(cfg.widths):
            blocks += [Block(inner, width, 2 if k else 1), Block(width, width, 1)]
            inner = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inner, cfg.classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def main(cfg):
    loader = DataLoader(Survey(512, cfg.pixels), batch_size=cfg.batch, drop_last=True)
    model = ResNet(cfg).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9, weight_decay=1e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, cfg.lr, total_steps=cfg.epochs * len(loader))
    for epoch in range(cfg.epochs):
        seen = total = 0
        for images, shapes in loader:
            loss = F.cross_entropy(model(images.cuda()), shapes.cuda(), label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(images)
            seen += len(images)
        print("epoch %d: loss %.3f" % (epoch, total / seen))


main(Config())
