"""Teaches a small depth network for a phone what a large one sees in unlabelled street scenes (scale-invariant loss between both depth maps)."""
import contextlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

teacher_context = torch.no_grad if "--fixed" in sys.argv else contextlib.nullcontext


def unit(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.GroupNorm(8, cout), nn.SiLU())


class DepthNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        widths = [width * 2 ** i for i in range(4)]
        self.stem = unit(3, width, 2)
        self.down = nn.ModuleList(nn.Sequential(unit(a, b, 2), *[unit(b, b) for _ in range(depth)]) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(unit(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1]))
        self.out = nn.Conv2d(width, 1, 3, 1, 1)

    def forward(self, x):
        skips = [self.stem(x)]
        for stage in self.down:
            skips.append(stage(skips[-1]))
        x = skips.pop()
        for stage in self.up:
            x = stage(torch.cat([F.interpolate(x, scale_factor=2, mode="bilinear"), skips.pop()], 1))
        return F.softplus(F.interpolate(self.out(x), scale_factor=2, mode="bilinear"))


def scale_invariant(predicted, target, share=0.5):
    d = torch.log(predicted + 1e-3) - torch.log(target + 1e-3)
    return d.pow(2).mean() - share * d.mean((1, 2, 3)).pow(2).mean()


class Distiller:
    def __init__(self, batch, size):
        self.batch, self.size = batch, size
        self.teacher = DepthNet(48, 4).to("cuda").eval()
        self.student = DepthNet(16, 2).to("cuda")
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=5e-4)

    def scenes(self, n):
        for _ in range(n):
            yield torch.rand(self.batch, 3, *self.size)

    def run(self, steps):
        for i, scene in enumerate(self.scenes(steps)):
            scene = scene.to("cuda")
            with teacher_context():
                target = self.teacher(scene)
            loss = scale_invariant(self.student(scene), target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print("step", i, "loss", loss.item())


Distiller(8, (192, 320)).run(4)
