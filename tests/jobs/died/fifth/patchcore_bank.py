"""Finds defects on circuit boards: features of good boards are collected, then new boards are scored by their distance to them."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
KEEP = 0.05


class Backbone(nn.Module):
    """A pretrained network of which only the middle stages are used."""

    def __init__(self, widths=(64, 128, 256)):
        super().__init__()
        stages, inner = [], 3
        for k, width in enumerate(widths):
            stages.append(nn.Sequential(nn.Conv2d(inner, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
                                        nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU()))
            inner = width
        self.stages = nn.ModuleList(stages)

    def forward(self, x):
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found[1:]


class PatchCore:
    def __init__(self, backbone):
        self.backbone = backbone.cuda().eval()
        self.bank = []

    def patches(self, images):
        fine, coarse = self.backbone(images)
        coarse = nn.functional.interpolate(coarse, size=fine.shape[-2:], mode="bilinear")
        both = nn.functional.avg_pool2d(torch.cat([fine, coarse], 1), 3, 1, 1)
        return both.permute(0, 2, 3, 1).reshape(-1, both.shape[1])

    @torch.inference_mode()
    def fit(self, loader):
        for images in loader:
            found = self.patches(images.cuda())
            self.bank.append(found.cpu() if FIXED else found)
        self.bank = [b[torch.randperm(len(b))[:int(KEEP * len(b))]] for b in self.bank]
        self.memory = torch.cat(self.bank).cuda()
        self.bank = []

    @torch.inference_mode()
    def score(self, images):
        d = torch.cdist(self.patches(images.cuda()), self.memory[:2000])
        return d.min(1).values.view(len(images), -1).max(1).values.cpu()


def boards(n, batch=8, size=224):
    for _ in range(0, n, batch):
        yield torch.zeros(batch, 3, size, size)


if __name__ == "__main__":
    torch.manual_seed(0)
    detector = PatchCore(Backbone())
    detector.fit(boards(200))
    for images in boards(16):
        print(detector.score(images).tolist())
