# Which insect visits the flower? R(2+1)D on clips from field cameras (bumblebee, hoverfly, honeybee, beetle, none).
import sys
from dataclasses import dataclass, replace

import torch
from torch import nn


@dataclass
class Cfg:
    frames: int = 64
    side: int = 112
    batch: int = 4
    classes: int = 5
    lr: float = 0.01
    steps: int = 8


class Conv2Plus1d(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        mid = (cin * cout * 27) // (cin * 9 + 3 * cout)
        self.spatial = nn.Conv3d(cin, mid, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)
        self.bn = nn.BatchNorm3d(mid)
        self.temporal = nn.Conv3d(mid, cout, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False)

    def forward(self, x):
        return self.temporal(torch.relu(self.bn(self.spatial(x))))


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a, self.na = Conv2Plus1d(cin, cout, stride), nn.BatchNorm3d(cout)
        self.b, self.nb = Conv2Plus1d(cout, cout), nn.BatchNorm3d(cout)
        self.short = nn.Identity() if stride == 1 and cin == cout else nn.Sequential(
            nn.Conv3d(cin, cout, 1, stride, bias=False), nn.BatchNorm3d(cout))

    def forward(self, x):
        y = torch.relu(self.na(self.a(x)))
        return torch.relu(self.nb(self.b(y)) + self.short(x))


class VisitNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv3d(3, 45, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False), nn.BatchNorm3d(45), nn.ReLU(True),
                                  nn.Conv3d(45, 64, (3, 1, 1), 1, (1, 0, 0), bias=False), nn.BatchNorm3d(64), nn.ReLU(True))
        self.stages = nn.Sequential(Residual(64, 64, 1), Residual(64, 128, 2), Residual(128, 256, 2), Residual(256, 256, 2))
        self.head = nn.Linear(256, classes)

    def forward(self, clip):
        return self.head(self.stages(self.stem(clip)).mean((2, 3, 4)))


def clips(cfg, seed=4):
    g = torch.Generator().manual_seed(seed)
    while True:
        video = torch.randint(0, 256, (cfg.batch, 3, cfg.frames, cfg.side, cfg.side), generator=g, dtype=torch.uint8)
        label = torch.randint(0, cfg.classes, (cfg.batch,), generator=g)
        yield video, label


def main(cfg):
    device = torch.device("cuda")
    model = VisitNet(cfg.classes).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    stream = clips(cfg)
    for step in range(cfg.steps):
        video, label = next(stream)
        video = video.to(device).float().div_(255).sub_(0.45).div_(0.225)
        loss = criterion(model(video), label.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, round(loss.item(), 3))


cfg = Cfg()
if "--fixed" in sys.argv:
    cfg = replace(cfg, frames=16)
main(cfg)
