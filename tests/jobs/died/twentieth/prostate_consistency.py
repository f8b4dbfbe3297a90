"""Zones of the prostate in MR volumes, with few labels: the net agrees with a slowly moving average of itself on the others."""
import copy
import sys

import torch
from torch import nn
from torch.nn import functional as F

FIXED = "--fixed" in sys.argv


class Block(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(nn.Conv3d(i, o, 3, padding=1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.1),
                         nn.Conv3d(o, o, 3, padding=1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.1))


class VNet(nn.Module):
    def __init__(self, zones=4, w=16):
        super().__init__()
        self.a, self.b, self.c = Block(1, w), Block(w, 2 * w), Block(2 * w, 4 * w)
        self.up1, self.d = nn.ConvTranspose3d(4 * w, 2 * w, 2, 2), Block(4 * w, 2 * w)
        self.up2, self.e = nn.ConvTranspose3d(2 * w, w, 2, 2), Block(2 * w, w)
        self.zones = nn.Conv3d(w, zones, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool3d(a, 2))
        c = self.c(F.max_pool3d(b, 2))
        d = self.d(torch.cat([self.up1(c), b], 1))
        return self.zones(self.e(torch.cat([self.up2(d), a], 1)))


class Pair:
    def __init__(self, rate=0.99):
        self.student = VNet().cuda()
        self.average = copy.deepcopy(self.student)
        self.average.eval()
        self.rate = rate

    def targets(self, volumes):
        noisy = volumes + 0.05 * torch.randn_like(volumes)
        if FIXED:
            with torch.no_grad():
                return self.average(noisy).softmax(1)
        return self.average(noisy).softmax(1)

    @torch.no_grad()
    def follow(self):
        for slow, fast in zip(self.average.parameters(), self.student.parameters()):
            slow.lerp_(fast, 1 - self.rate)


def main():
    pair = Pair()
    optimizer = torch.optim.SGD(pair.student.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    for step in range(8):
        labelled, zones = torch.zeros(1, 1, 48, 128, 128), torch.zeros(1, 48, 128, 128, dtype=torch.long)
        unlabelled = torch.zeros(3, 1, 48, 128, 128).cuda()
        wanted = pair.targets(unlabelled)
        scores = pair.student(torch.cat([labelled.cuda(), unlabelled]))
        supervised = F.cross_entropy(scores[:1], zones.cuda())
        consistency = F.mse_loss(scores[1:].softmax(1), wanted)
        loss = supervised + 0.1 * min(1.0, step / 5) * consistency
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pair.follow()
        print(step, supervised.item(), consistency.item())


main()
