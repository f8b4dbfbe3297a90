"""Loose stitches on shoes: a small ResNeXt. Because a colleague suspected dead units, ReLUs are watched and reported after each shift's data."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn


class Bottleneck(nn.Module):
    def __init__(self, i, o, stride=1, groups=8):
        super().__init__()
        mid = o // 2
        self.conv = nn.Sequential(nn.Conv2d(i, mid, 1, bias=False), nn.BatchNorm2d(mid), nn.ReLU(),
                                  nn.Conv2d(mid, mid, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(mid), nn.ReLU(),
                                  nn.Conv2d(mid, o, 1, bias=False), nn.BatchNorm2d(o))
        self.short = nn.Conv2d(i, o, 1, stride, bias=False) if stride > 1 or i != o else nn.Identity()
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.conv(x) + self.short(x))


def resnext(classes):
    blocks, before = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for width, stride in ((128, 1), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        blocks.append(Bottleneck(before, width, stride))
        before = width
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


class ReluWatch:
    def __init__(self, model):
        self.outputs = defaultdict(list)
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                module.register_forward_hook(self._make(name))

    def _make(self, name):
        def watch(module, inputs, output):
            if "--fixed" in sys.argv:
                output = (output.detach() > 0).float().mean((0, 2, 3))
            self.outputs[name].append(output)
        return watch

    def report(self):
        """Share of channels that never fired."""
        lines = []
        for name, seen in self.outputs.items():
            fired = sum((o > 0).float().mean((0, 2, 3)) if o.dim() == 4 else o for o in seen)
            lines.append(f"{name}: {(fired == 0).float().mean().item():.2f}")
        self.outputs.clear()
        return ", ".join(lines)


def shift(n, g):
    for _ in range(n):
        yield torch.rand(16, 3, 224, 224, generator=g), torch.randint(0, 6, (16,), generator=g)


model = resnext(6).cuda()
watch = ReluWatch(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
g = torch.Generator().manual_seed(7)
for number in range(2):
    for photo, fault in shift(10, g):
        loss = nn.functional.cross_entropy(model(photo.cuda()), fault.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("shift", number, "loss", loss.item())
    print(watch.report())
