"""Classifies chest X-rays with a densely connected network; dead channels are counted after each epoch."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
FINDINGS = 14


class DenseLayer(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, growth, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.conv(F.relu(self.norm(x)))], 1)


class Transition(nn.Sequential):
    def __init__(self, channels):
        super().__init__(nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2))


class DenseXray(nn.Module):
    def __init__(self, growth=16, layers=(4, 4, 4)):
        super().__init__()
        channels, blocks = 32, [nn.Conv2d(1, 32, 7, 4, 3)]
        for n in layers:
            for _ in range(n):
                blocks.append(DenseLayer(channels, growth))
                channels += growth
            blocks.append(Transition(channels))
            channels //= 2
        self.features = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, FINDINGS)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


class DeadChannels:
    """Which channels of the dense layers are never above zero."""

    def __init__(self, net):
        self.seen = defaultdict(list)
        for name, module in net.named_modules():
            if isinstance(module, DenseLayer):
                module.register_forward_hook(self.hook(name))

    def hook(self, name):
        def record(module, inputs, output):
            if FIXED:
                self.seen[name].append(output.detach().amax((0, 2, 3)).cpu())
            else:
                self.seen[name].append(output)
        return record

    def report(self):
        for name, outputs in self.seen.items():
            highest = torch.stack([o if o.dim() == 1 else o.detach().amax((0, 2, 3)).cpu() for o in outputs]).amax(0)
            print("  %s: %d of %d channels are dead" % (name, (highest <= 0).sum(), len(highest)))
        self.seen.clear()


def radiographs(batches, size):
    generator = torch.Generator().manual_seed(5)
    for _ in range(batches):
        yield torch.zeros(size, 1, 384, 384), (torch.rand(size, FINDINGS, generator=generator) < 0.1).float()


def main():
    net = DenseXray().cuda()
    dead = DeadChannels(net)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-4)
    for epoch in range(2):
        for image, finding in radiographs(10, 12):
            loss = F.binary_cross_entropy_with_logits(net(image.cuda()), finding.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())
        dead.report()


main()
