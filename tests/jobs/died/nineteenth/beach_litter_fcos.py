"""Litter on beaches, seen from a drone. A small FCOS by hand: backbone, pyramid, and heads without anchors."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

SIDE = 608 if "--fixed" in sys.argv else 1216
KINDS = 7
STRIDES = (8, 16, 32)


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.SiLU())


class Backbone(nn.Module):
    def __init__(self, w=32):
        super().__init__()
        self.stem = nn.Sequential(conv(3, w, 2), conv(w, w))
        self.c2 = nn.Sequential(conv(w, 2 * w, 2), conv(2 * w, 2 * w))
        self.c3 = nn.Sequential(conv(2 * w, 4 * w, 2), conv(4 * w, 4 * w))
        self.c4 = nn.Sequential(conv(4 * w, 6 * w, 2), conv(6 * w, 6 * w))
        self.c5 = nn.Sequential(conv(6 * w, 8 * w, 2), conv(8 * w, 8 * w))

    def forward(self, x):
        c3 = self.c3(self.c2(self.stem(x)))
        c4 = self.c4(c3)
        return c3, c4, self.c5(c4)


class Fcos(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.backbone = Backbone()
        self.lateral = nn.ModuleList(nn.Conv2d(c, width, 1) for c in (128, 192, 256))
        self.tower = nn.Sequential(conv(width, width), conv(width, width))
        self.kind = nn.Conv2d(width, KINDS, 3, padding=1)
        self.box = nn.Conv2d(width, 5, 3, padding=1)  # four sides and the centerness

    def forward(self, x):
        levels = [lat(c) for lat, c in zip(self.lateral, self.backbone(x))]
        for i in (1, 0):
            levels[i] = levels[i] + F.interpolate(levels[i + 1], size=levels[i].shape[-2:])
        kinds, boxes = [], []
        for level in levels:
            h = self.tower(level)
            kinds.append(self.kind(h).flatten(2))
            boxes.append(self.box(h).flatten(2))
        return torch.cat(kinds, 2), torch.cat(boxes, 2)


def sample(n, g):
    pictures = torch.rand(n, 3, 76, 76, generator=g)
    pictures = F.interpolate(pictures, size=(SIDE, SIDE))
    places = sum((SIDE // s) ** 2 for s in STRIDES)
    kind = torch.zeros(n, KINDS, places)
    kind[:, :, ::97] = 1.0
    sides = torch.rand(n, 5, places, generator=g)
    return pictures, kind, sides


def focal(logits, target, alpha=0.25, gamma=2.0):
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p = torch.sigmoid(logits)
    pt = p * target + (1 - p) * (1 - target)
    return (ce * (1 - pt) ** gamma * (alpha * target + (1 - alpha) * (1 - target))).sum() / target.sum().clamp(min=1)


def train(steps=6, batch=6):
    g = torch.Generator().manual_seed(5)
    model = Fcos().cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    for it in range(steps):
        pictures, kind, sides = (t.cuda() for t in sample(batch, g))
        k, b = model(pictures)
        loss = focal(k, kind) + F.l1_loss(b[:, :4].exp(), sides[:, :4]) + F.mse_loss(b[:, 4].sigmoid(), sides[:, 4])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"it {it} loss {loss.item():.3f}")


if __name__ == "__main__":
    train()
