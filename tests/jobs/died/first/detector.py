"""An anchor-based detector; the boxes of an image are matched with all anchors.

https://github.com/facebookresearch/maskrcnn-benchmark/issues/18
"""
import random
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
random.seed(3)


def box_iou(a, b):
    lt = torch.max(a[:, None, :2], b[None, :, :2])
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    area_a, area_b = ((t[:, 2:] - t[:, :2]).prod(1) for t in (a, b))
    return inter / (area_a[:, None] + area_b[None] - inter)


class RetinaNet(nn.Module):
    def __init__(self, classes=15, anchors=9):
        super().__init__()
        widths = (64, 128, 256, 512)
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.stages = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 3, 2 if i else 1, 1), nn.ReLU(), nn.Conv2d(b, b, 3, 1, 1), nn.ReLU())
                                    for i, (a, b) in enumerate(zip((64,) + widths, widths)))
        self.lateral = nn.ModuleList(nn.Conv2d(w, 256, 1) for w in widths[1:])
        self.cls, self.reg = nn.Conv2d(256, anchors * classes, 3, 1, 1), nn.Conv2d(256, anchors * 4, 3, 1, 1)

    def forward(self, x):
        x, maps = self.stem(x), []
        for i, stage in enumerate(self.stages):
            x = stage(x)
            if i:
                maps.append(self.lateral[i - 1](x))
        return [self.cls(m).flatten(2) for m in maps], [self.reg(m).permute(0, 2, 3, 1).reshape(len(m), -1, 4) for m in maps]


def match(anchors, boxes, chunk):
    best, index = [], []
    for part in boxes.split(chunk):
        value, where = box_iou(part, anchors).max(0)
        best.append(value)
        index.append(where)
    best = torch.stack(best)
    return best.max(0).values


model = RetinaNet().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
objects = [7, 12, 30, 4, 1400, 22, 9, 1400]
for step in range(8):
    image = torch.rand(1, 3, 800, 1216, device="cuda")
    boxes = torch.rand(objects[step], 4, device="cuda")
    cls, reg = model(image)
    reg = torch.cat(reg, 1)
    anchors = torch.rand(reg.shape[1] * 2, 4, device="cuda")
    overlap = match(anchors, boxes, 50 if FIXED else 10000)
    loss = sum(F.softplus(c).mean() for c in cls) + (reg.abs().sum(-1) * overlap[:reg.shape[1]]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
