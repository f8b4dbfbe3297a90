"""Segments photographs of reefs into kinds of coral; at the end of an epoch it prints the intersection over union of all that the epoch predicted."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

KINDS = 14


class Separable(nn.Module):
    def __init__(self, cin, cout, stride=1, dilation=1):
        super().__init__()
        self.depth = nn.Conv2d(cin, cin, 3, stride, dilation, dilation, groups=cin, bias=False)
        self.point = nn.Conv2d(cin, cout, 1, bias=False)
        self.norm = nn.BatchNorm2d(cout)

    def forward(self, x):
        return F.relu6(self.norm(self.point(self.depth(x))))


class ReefNet(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, w, 3, 2, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU6())
        self.low = Separable(w, 2 * w, 2)
        self.high = nn.Sequential(Separable(2 * w, 4 * w, 2), Separable(4 * w, 8 * w, 2), Separable(8 * w, 8 * w), Separable(8 * w, 8 * w))
        self.pyramid = nn.ModuleList(Separable(8 * w, 2 * w, dilation=d) for d in (1, 3, 6))
        self.head = nn.Sequential(Separable(8 * w, 4 * w), nn.Conv2d(4 * w, KINDS, 1))

    def forward(self, x):
        size = x.shape[-2:]
        low = self.low(self.stem(x))
        x = self.high(low)
        x = torch.cat([branch(x) for branch in self.pyramid], 1)
        x = torch.cat([F.interpolate(x, size=low.shape[-2:], mode="bilinear"), low], 1)
        return F.interpolate(self.head(x), size=size, mode="bilinear")


def iou(predicted, target):
    hits = [((predicted == k) & (target == k)).sum() / ((predicted == k) | (target == k)).sum().clamp(min=1) for k in range(KINDS)]
    return torch.stack(hits).mean().item()


class Epoch:
    """What one epoch leaves for its summary."""

    def __init__(self, small):
        self.small, self.outputs, self.targets = small, [], []

    def add(self, logits, target):
        if self.small:
            self.outputs.append(logits.detach().argmax(1).to(torch.uint8).cpu())
            self.targets.append(target.to(torch.uint8).cpu())
        else:
            self.outputs.append(logits)
            self.targets.append(target)

    def score(self):
        values = [iou(o if self.small else o.argmax(1), t) for o, t in zip(self.outputs[:4], self.targets)]
        return sum(values) / len(values)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    fixed = parser.parse_args().fixed
    model = ReefNet().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    epoch = Epoch(small=fixed)
    for i in range(20):
        photos, labels = torch.zeros(6, 3, 256, 256), torch.randint(0, KINDS, (6, 256, 256))
        labels = labels.to("cuda")
        logits = model(photos.to("cuda"))
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        epoch.add(logits, labels)
        if i % 5 == 0:
            print("batch", i, "loss", loss.item())
    print("intersection over union", epoch.score())


main()
