"""Age of ivory carvings (regression in centuries). EfficientNet-like; we plot the mean response of each block per epoch."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn

fixed = "--fixed" in sys.argv


class SE(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c // 8, 1), nn.SiLU(), nn.Conv2d(c // 8, c, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.fc(x)


class MBConv(nn.Module):
    def __init__(self, i, o, s=1, e=3):
        super().__init__()
        m = i * e
        self.f = nn.Sequential(nn.Conv2d(i, m, 1, bias=False), nn.BatchNorm2d(m), nn.SiLU(),
                               nn.Conv2d(m, m, 3, s, 1, groups=m, bias=False), nn.BatchNorm2d(m), nn.SiLU(), SE(m),
                               nn.Conv2d(m, o, 1, bias=False), nn.BatchNorm2d(o))
        self.same = s == 1 and i == o

    def forward(self, x):
        return x + self.f(x) if self.same else self.f(x)


class CarvingNet(nn.Module):
    def __init__(self):
        super().__init__()
        plan = [(24, 32, 1), (32, 32, 1), (32, 48, 2), (48, 48, 1), (48, 96, 2), (96, 96, 1), (96, 160, 2)]
        self.stem = nn.Sequential(nn.Conv2d(3, 24, 3, 4, 1, bias=False), nn.BatchNorm2d(24), nn.SiLU())
        self.blocks = nn.ModuleList([MBConv(*p) for p in plan])
        self.age = nn.Linear(160, 1)

    def forward(self, x):
        x = self.stem(x)
        for b in self.blocks:
            x = b(x)
        return self.age(x.mean((2, 3))).squeeze(1)


class ResponsePlot:
    def __init__(self, model):
        self.seen = defaultdict(list)
        for name, module in model.named_modules():
            if isinstance(module, MBConv):
                module.register_forward_hook(self.record(name))

    def record(self, name):
        def hook(module, inputs, output):
            output = output.detach()
            if fixed:
                output = output.mean((0, 2, 3)).cpu()
            self.seen[name].append(output)
        return hook

    def rows(self):
        for name, outputs in self.seen.items():
            means = [o if o.dim() == 1 else o.mean((0, 2, 3)) for o in outputs]
            yield name, torch.stack(means).mean().item()


net = CarvingNet().cuda()
plot = ResponsePlot(net)
opt = torch.optim.RMSprop(net.parameters(), lr=1e-4, momentum=0.9)
gen = torch.Generator().manual_seed(13)
for epoch in range(2):
    for _ in range(14):
        photos = torch.rand(16, 3, 256, 256, generator=gen).cuda()
        ages = torch.rand(16, generator=gen).cuda() * 30
        loss = (net(photos) - ages).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("epoch", epoch, loss.item(), dict(plot.rows()))
