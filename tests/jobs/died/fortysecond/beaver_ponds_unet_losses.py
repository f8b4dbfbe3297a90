"""Outlines of beaver ponds from aerial pictures: a U-Net with a loss for the area and one for the shore, each with a backward pass of its own."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


def double(cin, c):
    return nn.Sequential(nn.Conv2d(cin, c, 3, padding=1), nn.BatchNorm2d(c), nn.LeakyReLU(0.1), nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c),
                         nn.LeakyReLU(0.1))


class PondNet(nn.Module):
    """Four levels."""

    def __init__(self, c=24):
        super().__init__()
        self.down = nn.ModuleList([double(4, c), double(c, 2 * c), double(2 * c, 4 * c)])
        self.bottom = double(4 * c, 8 * c)
        self.grow = nn.ModuleList([nn.ConvTranspose2d(8 * c, 4 * c, 2, 2), nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)])
        self.up = nn.ModuleList([double(8 * c, 4 * c), double(4 * c, 2 * c), double(2 * c, c)])
        self.pond = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        skips = []
        for level in self.down:
            x = level(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for grow, level in zip(self.grow, self.up):
            x = level(torch.cat([grow(x), skips.pop()], 1))
        return self.pond(x)


def area_loss(logits, ponds):
    p = logits.sigmoid()
    return 1 - (2 * (p * ponds).sum() + 1) / (p.sum() + ponds.sum() + 1)


def shore_loss(logits, ponds):
    shore = F.max_pool2d(ponds, 5, 1, 2) - ponds
    return (F.binary_cross_entropy_with_logits(logits, ponds, reduction="none") * (1 + 4 * shore)).mean()


def scenes(n):
    g = torch.Generator().manual_seed(66)
    for _ in range(n):
        x = torch.rand(8, 4, 256, 256, generator=g)
        yield x.cuda(), (x[:, 3:] > 0.6).float().cuda()


def main():
    torch.manual_seed(0)
    model = PondNet().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    for step, (scene, ponds) in enumerate(scenes(6)):
        logits = model(scene)
        area, shore = area_loss(logits, ponds), 0.5 * shore_loss(logits, ponds)
        optimizer.zero_grad()
        area.backward(retain_graph=True)
        shore.backward(retain_graph=not FIXED)
        optimizer.step()
        print("step", step, "area", area.item(), "shore", shore.item())


if __name__ == "__main__":
    main()
