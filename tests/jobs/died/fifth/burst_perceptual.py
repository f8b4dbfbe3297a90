"""Removes noise from bursts of photographs; the loss compares features of a VGG-like network beside the pixels."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class Features(nn.Module):
    """The first three stages of a VGG, whose weights come from classification."""

    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList()
        inner = 3
        for width, n in (64, 2), (128, 2), (256, 3):
            layers = []
            for _ in range(n):
                layers += [nn.Conv2d(inner, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
                inner = width
            self.stages.append(nn.Sequential(*layers))

    def forward(self, x):
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
            x = F.avg_pool2d(x, 2)
        return found


class PerceptualLoss(nn.Module):
    def __init__(self, weights=(1.0, 0.5, 0.25)):
        super().__init__()
        self.features = Features().eval()
        self.weights = weights
        if "--fixed" in sys.argv:
            self.features.requires_grad_(False)

    def forward(self, output, clean):
        pairs = zip(self.weights, self.features(output), self.features(clean))
        return sum(w * F.l1_loss(a, b) for w, a, b in pairs)


class BurstNet(nn.Module):
    def __init__(self, frames=6, width=32, blocks=4):
        super().__init__()
        self.merge = nn.Conv2d(frames * 3, width, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
                                    for _ in range(blocks))
        self.out = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, burst):
        x = self.merge(burst.flatten(1, 2))
        for block in self.blocks:
            x = x + block(x)
        return self.out(x) + burst[:, 0]


device = "cuda"
net = BurstNet().to(device)
perceptual = PerceptualLoss().to(device)
optimizer = torch.optim.Adam(net.parameters(), lr=2e-4)
for step in range(8):
    clean = torch.rand(8, 3, 128, 128)
    burst = clean[:, None] + 0.1 * torch.randn(8, 6, 3, 128, 128)
    clean, burst = clean.to(device), burst.to(device)
    output = net(burst)
    loss = F.l1_loss(output, clean) + 0.1 * perceptual(output, clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step %d loss %.4f" % (step, loss.item()))
