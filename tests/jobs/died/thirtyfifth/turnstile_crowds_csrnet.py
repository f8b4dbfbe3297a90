"""Counts people in front of turnstiles with density maps (CSRNet-like). A monitor follows the share of dead units during training."""
import sys

import torch
import torch.nn as nn


class CrowdNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
                                   nn.MaxPool2d(2), nn.Conv2d(64, 128, 3, padding=1), nn.ReLU())
        self.back = nn.Sequential(*[m for _ in range(3) for m in (nn.Conv2d(128, 128, 3, padding=2, dilation=2), nn.ReLU())])
        self.density = nn.Conv2d(128, 1, 1)

    def forward(self, x):
        return self.density(self.back(self.front(x)))


class UnitMonitor:
    """Share of units that are zero, per ReLU, over an epoch."""

    def __init__(self, net):
        self.seen = {}
        for name, module in net.named_modules():
            if isinstance(module, nn.ReLU):
                self.seen[name] = []
                module.register_forward_hook(self.listener(name))

    def listener(self, name):
        def listen(module, inputs, output):
            value = output.detach()
            if "--fixed" in sys.argv:
                value = (value == 0).float().mean().cpu()
            self.seen[name].append(value)
        return listen

    def report(self):
        shares = {}
        for name, values in self.seen.items():
            shares[name] = sum(v.item() if v.ndim == 0 else (v == 0).float().mean().item() for v in values) / len(values)
            values.clear()
        return shares


def frames(count, batch=8):
    g = torch.Generator().manual_seed(13)
    for _ in range(count):
        yield torch.rand(batch, 3, 192, 256, generator=g).cuda(), torch.rand(batch, 1, 48, 64, generator=g).cuda() / 50


net = CrowdNet().cuda()
monitor = UnitMonitor(net)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-5)
for epoch in range(2):
    for image, density in frames(12):
        guess = net(image)
        loss = ((guess - density) ** 2).sum() / len(image)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item(), "off by", (guess.sum() - density.sum()).abs().item() / 8)
    for name, share in monitor.report().items():
        print("   ", name, round(share, 3))
