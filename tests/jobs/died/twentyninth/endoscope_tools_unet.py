"""Segments instruments in endoscope video for a surgical assistant; trained on crops, validated on whole frames."""
import sys
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Sizes:
    crop: int = 192
    frame: tuple = (544, 960)
    train_batch: int = 8
    frame_batch: int = 2 if "--fixed" in sys.argv else 16
    widths: list = field(default_factory=lambda: [24, 48, 96, 192])
    classes: int = 7


def double_conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
                         nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class ToolNet(nn.Module):
    def __init__(self, widths, classes):
        super().__init__()
        self.down = nn.ModuleList(double_conv(a, b) for a, b in zip([3] + widths[:-1], widths))
        pairs = list(zip(widths[::-1], widths[-2::-1]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairs)
        self.merge = nn.ModuleList(double_conv(2 * b, b) for _, b in pairs)
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([up(x), skips.pop()], 1))
        return self.head(x)


class SegmentationRun:
    def __init__(self, sizes):
        self.sizes = sizes
        self.net = ToolNet(sizes.widths, sizes.classes).cuda()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.gen = torch.Generator().manual_seed(0)

    def _frames(self, batch, height, width):
        image = torch.rand(batch, 3, height, width, generator=self.gen)
        mask = torch.randint(self.sizes.classes, (batch, height, width), generator=self.gen, dtype=torch.uint8)
        return image.cuda(), mask.cuda()

    def train_epoch(self, steps=10):
        self.net.train()
        for _ in range(steps):
            image, mask = self._frames(self.sizes.train_batch, self.sizes.crop, self.sizes.crop)
            loss = F.cross_entropy(self.net(image), mask.long())
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()

    @torch.inference_mode()
    def validate(self, frames=32):
        self.net.eval()
        agree = 0.0
        for _ in range(frames // self.sizes.frame_batch):
            image, mask = self._frames(self.sizes.frame_batch, *self.sizes.frame)
            agree += (self.net(image).argmax(1).to(torch.uint8) == mask).float().mean().item()
        return agree * self.sizes.frame_batch / frames


run = SegmentationRun(Sizes())
for epoch in range(2):
    print(f"epoch {epoch}: loss {run.train_epoch():.4f}, pixel agreement {run.validate():.4f}")
