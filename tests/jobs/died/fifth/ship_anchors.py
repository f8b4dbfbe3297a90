"""Finds ships in satellite pictures: a one-stage detector with anchors, its targets assigned by overlap."""
import sys

import torch
from torch import nn
from torch.nn import functional as F

FIXED = "--fixed" in sys.argv
device = torch.device("cuda")
SIZE, STRIDES, SCALES = 384, (8, 16, 32), (1.0, 1.26, 1.59)
RATIOS = (0.5, 1.0, 2.0)


def anchors_of(size):
    boxes = []
    for stride in STRIDES:
        centre = (torch.arange(size // stride) + 0.5) * stride
        y, x = torch.meshgrid(centre, centre, indexing="ij")
        for scale in SCALES:
            for ratio in RATIOS:
                w, h = 4 * stride * scale * ratio ** 0.5, 4 * stride * scale / ratio ** 0.5
                boxes.append(torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], -1).view(-1, 4))
    return torch.cat(boxes)


def overlap(anchors, boxes):
    """Of each anchor with each box: anchors (..., A, 1, 4), boxes (..., 1, G, 4)."""
    low = torch.maximum(anchors[..., :2], boxes[..., :2])
    high = torch.minimum(anchors[..., 2:], boxes[..., 2:])
    inter = (high - low).clamp(min=0).prod(-1)
    area = lambda b: (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])  # noqa: E731
    return inter / (area(anchors) + area(boxes) - inter)


class Detector(nn.Module):
    def __init__(self, per_cell=len(SCALES) * len(RATIOS)):
        super().__init__()
        layers, inner = [], 3
        for width in 16, 32, 64:
            layers += [nn.Conv2d(inner, width, 3, 2, 1), nn.BatchNorm2d(width), nn.SiLU()]
            inner = width
        self.stem = nn.Sequential(*layers)
        self.down = nn.ModuleList(nn.Sequential(nn.Conv2d(64, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.SiLU()) for _ in range(2))
        self.score = nn.Conv2d(64, per_cell, 3, padding=1)
        self.box = nn.Conv2d(64, per_cell * 4, 3, padding=1)

    def forward(self, images):
        levels = [self.stem(images)]
        for layer in self.down:
            levels.append(layer(levels[-1]))
        scores = [self.score(x).flatten(1) for x in levels]
        boxes = [self.box(x).flatten(1).view(len(images), -1, 4) for x in levels]
        return torch.cat(scores, 1), torch.cat(boxes, 1)


@torch.no_grad()
def assign(anchors, boxes):
    """The best box of each anchor and its overlap, for the images of a batch."""
    if FIXED:
        pairs = [overlap(anchors[:, None], b[None]).max(-1) for b in boxes]
        return torch.stack([p.values for p in pairs]), torch.stack([p.indices for p in pairs])
    best = overlap(anchors[None, :, None], boxes[:, None]).max(-1)
    return best.values, best.indices


model = Detector().to(device)
anchors = anchors_of(SIZE).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
for step in range(6):
    images = torch.zeros(16, 3, SIZE, SIZE, device=device)
    corner = torch.rand(16, 60, 2) * 300
    ships = torch.cat([corner, corner + 10 + 60 * torch.rand(16, 60, 2)], -1).to(device)
    iou, which = assign(anchors, ships)
    scores, deltas = model(images)
    target = ships.gather(1, which[..., None].expand(-1, -1, 4))
    positive = (iou > 0.5).float()
    loss = F.binary_cross_entropy_with_logits(scores, positive)
    loss = loss + ((deltas - (target - anchors) / SIZE).abs().sum(-1) * positive).sum() / positive.sum().clamp(min=1)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print("step", step, "loss", float(loss))
