"""Sharpens low-dose coronary angiograms; the loss compares feature maps of a VGG-like network (weights from another study) at four depths."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class FeatureLoss(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [(1, 48), (48, 96), (96, 160), (160, 160)]
        self.slices = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU()) for a, b in widths)
        self.eval()
        if FIXED:
            self.requires_grad_(False)

    def maps(self, x):
        found = []
        for piece in self.slices:
            x = piece(x)
            found.append(x)
            x = F.max_pool2d(x, 2)
        return found

    def forward(self, got, want):
        got = self.maps(got)
        with torch.set_grad_enabled(not FIXED):
            want = self.maps(want)
        return sum(F.l1_loss(a, b) for a, b in zip(got, want))


class Sharpener(nn.Module):
    def __init__(self, width=16, depth=4):
        super().__init__()
        self.inp = nn.Conv2d(1, width, 5, padding=2)
        self.mid = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.out = nn.Conv2d(width, 1, 5, padding=2)

    def forward(self, x):
        h = F.relu(self.inp(x))
        for conv in self.mid:
            h = h + F.relu(conv(h))
        return x + self.out(h)


torch.manual_seed(3)
sharpener, perceptual = Sharpener().cuda(), FeatureLoss().cuda()
optimiser = torch.optim.Adam(sharpener.parameters(), lr=2e-4)
for frame in range(8):
    sharp = torch.rand(4, 1, 512, 512)
    low_dose = sharp + 0.05 * torch.randn_like(sharp)
    out = sharpener(low_dose.cuda())
    loss = F.l1_loss(out, sharp.cuda()) + 0.1 * perceptual(out, sharp.cuda())
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    print(f"batch {frame} loss {loss.item():.4f}")
