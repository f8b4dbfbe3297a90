"""Parcellation of the cortex (96 regions): trained on patches of T1 volumes, and the Dice of each region on whole volumes."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
REGIONS = 96


def block(cin, cout):
    return nn.Sequential(nn.Conv3d(cin, cout, 3, padding=1, bias=False), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01, inplace=True))


class ParcelNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.a, self.b, self.c = block(1, w), block(w, 3 * w), block(3 * w, 6 * w)
        self.up_b, self.up_a = block(9 * w, 3 * w), block(4 * w, 2 * w)
        self.out = nn.Conv3d(2 * w, REGIONS, 1)

    def forward(self, t1):
        a = self.a(t1)
        b = self.b(F.avg_pool3d(a, 2))
        c = self.c(F.avg_pool3d(b, 2))
        b = self.up_b(torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        a = self.up_a(torch.cat([a, F.interpolate(b, scale_factor=2)], 1))
        return self.out(a)


class DiceScore:
    """Sums overlaps over the volumes, and gives one Dice for each region."""

    def __init__(self):
        self.overlap, self.size = torch.zeros(REGIONS), torch.zeros(REGIONS)

    def update(self, guess, truth):
        if FIXED:
            for region in range(REGIONS):
                mine, theirs = guess == region, truth == region
                self.overlap[region] += (mine & theirs).sum().cpu()
                self.size[region] += (mine.sum() + theirs.sum()).cpu()
            return
        mine, theirs = F.one_hot(guess, REGIONS).flatten(0, -2), F.one_hot(truth, REGIONS).flatten(0, -2)
        self.overlap += (mine * theirs).sum(0).cpu()
        self.size += (mine.sum(0) + theirs.sum(0)).cpu()

    def mean(self):
        return (2 * self.overlap / self.size.clamp(min=1)).mean().item()


def volume(seed, side):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(1, 1, side, side, side, generator=g).cuda(), torch.randint(0, REGIONS, (1, side, side, side), generator=g).cuda()


net = ParcelNet().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.99, nesterov=True)
for epoch in range(2):
    net.train()
    for case in range(6):
        t1, parcels = volume(10 * epoch + case, 64)
        loss = F.cross_entropy(net(t1), parcels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 12)
        optimizer.step()
    net.eval()
    dice = DiceScore()
    with torch.inference_mode():
        for case in range(3):
            t1, parcels = volume(1000 + case, 112)
            dice.update(net(t1).argmax(1), parcels)
    print("epoch", epoch, "loss", loss.item(), "mean dice", dice.mean())
