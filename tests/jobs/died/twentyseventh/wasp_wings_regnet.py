"""Species of wasps from wing photographs, a small RegNet; a monitor looks at dead units of each stage after training."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class XBlock(nn.Module):
    def __init__(self, cin, cout, stride, group=16):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(cin, cout, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())
        self.b = nn.Sequential(nn.Conv2d(cout, cout, 3, stride, 1, groups=cout // group, bias=False), nn.BatchNorm2d(cout), nn.ReLU())
        self.c = nn.Sequential(nn.Conv2d(cout, cout, 1, bias=False), nn.BatchNorm2d(cout))
        self.skip = nn.Conv2d(cin, cout, 1, stride) if stride != 1 or cin != cout else nn.Identity()

    def forward(self, x):
        return F.relu(self.c(self.b(self.a(x))) + self.skip(x))


class RegNet(nn.Module):
    def __init__(self, species=60):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.stages = nn.ModuleList([nn.Sequential(XBlock(32, 48, 2), XBlock(48, 48, 1)), nn.Sequential(XBlock(48, 96, 2), XBlock(96, 96, 1)),
                                     nn.Sequential(XBlock(96, 208, 2), XBlock(208, 208, 1))])
        self.fc = nn.Linear(208, species)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.fc(x.mean((2, 3)))


class UnitMonitor:
    def __init__(self, model):
        self.seen = defaultdict(list)
        for name, module in model.named_modules():
            if isinstance(module, XBlock) or name == "stem":
                module.register_forward_hook(self._make(name))

    def _make(self, name):
        def look(module, args, output):
            if FIXED:
                self.seen[name].append(output.detach().amax((0, 2, 3)).cpu())
            else:
                self.seen[name].append(output.detach())
        return look

    def report(self):
        for name, values in self.seen.items():
            tops = torch.stack([v if v.dim() == 1 else v.amax((0, 2, 3)).cpu() for v in values])
            print(f"{name:12s} units {tops.shape[1]:4d} dead {(tops.amax(0) <= 0).sum().item()}")


model = RegNet().cuda()
monitor = UnitMonitor(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
wings = torch.rand(32, 3, 160, 160)
for step in range(20):
    x, y = wings.roll(step, 3).cuda(), torch.randint(0, 60, (32,)).cuda()
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print("step", step, loss.item())
monitor.report()
