# Philately club: can a postmark be read? Small EfficientNet-like network, two outputs (town legible, date legible).
import sys
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Cfg:
    image_size: int = 640
    batch_size: int = 12
    steps: int = 8
    lr: float = 2e-3


class SqueezeExcite(nn.Module):
    def __init__(self, ch, r=4):
        super().__init__()
        self.fc = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(ch, ch // r, 1), nn.SiLU(), nn.Conv2d(ch // r, ch, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.fc(x)


class MBConv(nn.Module):
    def __init__(self, cin, cout, stride, expand=3):
        super().__init__()
        mid = cin * expand
        self.skip = stride == 1 and cin == cout
        self.body = nn.Sequential(
            nn.Conv2d(cin, mid, 1, bias=False), nn.BatchNorm2d(mid), nn.SiLU(),
            nn.Conv2d(mid, mid, 3, stride, 1, groups=mid, bias=False), nn.BatchNorm2d(mid), nn.SiLU(),
            SqueezeExcite(mid), nn.Conv2d(mid, cout, 1, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = self.body(x)
        return x + y if self.skip else y


def build():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU(),
        MBConv(16, 24, 2), MBConv(24, 24, 1), MBConv(24, 40, 2), MBConv(40, 40, 1), MBConv(40, 80, 2), MBConv(80, 80, 1), MBConv(80, 80, 1),
        nn.Conv2d(80, 320, 1), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(320, 2))


def stamps(cfg):
    g = torch.Generator().manual_seed(1840)
    for _ in range(cfg.steps):
        scan = torch.rand(cfg.batch_size, 1, 320, 320, generator=g)
        yield nn.functional.interpolate(scan, size=cfg.image_size, mode="bilinear"), torch.randint(0, 2, (cfg.batch_size, 2), generator=g)


if __name__ == "__main__":
    cfg = Cfg(image_size=288) if "--fixed" in sys.argv else Cfg()
    net = build().cuda()
    opt = torch.optim.RMSprop(net.parameters(), lr=cfg.lr, momentum=0.9)
    criterion = nn.BCEWithLogitsLoss()
    for i, (x, y) in enumerate(stamps(cfg)):
        x, y = x.cuda(non_blocking=True), y.float().cuda()
        opt.zero_grad(set_to_none=True)
        loss = criterion(net(x), y)
        loss.backward()
        opt.step()
        print(f"[{i}] {loss.item():.4f}")
