"""Grain-size classes of crushed stone on a conveyor belt. A watcher reports how many ReLU units are dead."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
        self.conv2, self.bn2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False) if stride > 1 or cin != cout else nn.Identity()

    def forward(self, x):
        h = self.relu1(self.bn1(self.conv1(x)))
        return self.relu2(self.bn2(self.conv2(h)) + self.skip(x))


def stone_net(classes=9):
    body = [nn.Conv2d(1, 32, 5, 2, 2), nn.ReLU()]
    for cin, cout, stride in [(32, 32, 1), (32, 64, 2), (64, 128, 2), (128, 192, 2)]:
        body += [BasicBlock(cin, cout, stride), BasicBlock(cout, cout, 1)]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(192, classes))


class ReluWatcher:
    def __init__(self, model, light):
        self.light, self.records = light, defaultdict(list)
        self.handles = [m.register_forward_hook(self._named(n)) for n, m in model.named_modules() if isinstance(m, nn.ReLU)]

    def _named(self, name):
        def hook(module, args, output):
            if not module.training:
                return
            if self.light:
                self.records[name].append((output.detach() == 0).float().mean().item())
            else:
                self.records[name].append(output)
        return hook

    def report(self):
        dead = {}
        for name, values in self.records.items():
            dead[name] = sum(v if self.light else (v == 0).float().mean().item() for v in values) / len(values)
        self.records.clear()
        return max(dead, key=dead.get), len(dead)


def belt_images(n, size=24):
    g = torch.Generator().manual_seed(6)
    for _ in range(n):
        yield torch.zeros(size, 1, 160, 160), torch.randint(0, 9, (size,), generator=g)


def main():
    model = stone_net().cuda()
    watcher = ReluWatcher(model, light="--fixed" in sys.argv)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.2, total_steps=32)
    for epoch in range(2):
        model.train()
        for images, grains in belt_images(16):
            loss = F.cross_entropy(model(images.cuda()), grains.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
        print("epoch", epoch, "loss", loss.item(), "most dead", watcher.report())


main()
