"""Removes ring artefacts from synchrotron sinograms: residual generator, patch discriminator, hinge loss + L1."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.n = nn.InstanceNorm2d(c)

    def forward(self, x):
        return x + self.b(F.relu(self.n(self.a(x))))


netG = nn.Sequential(nn.Conv2d(1, 32, 7, padding=3), nn.ReLU(), *[Residual(32) for _ in range(6)], nn.Conv2d(32, 1, 7, padding=3)).cuda()
netD = nn.Sequential(
    nn.Conv2d(1, 48, 3, padding=1), nn.LeakyReLU(0.2),
    nn.Conv2d(48, 64, 3, padding=1), nn.InstanceNorm2d(64), nn.LeakyReLU(0.2),
    nn.Conv2d(64, 64, 4, stride=2, padding=1), nn.InstanceNorm2d(64), nn.LeakyReLU(0.2),
    nn.Conv2d(64, 128, 4, stride=2, padding=1), nn.InstanceNorm2d(128), nn.LeakyReLU(0.2),
    nn.Conv2d(128, 1, 3, padding=1)).cuda()
optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))


def sinograms(steps, n=6, angles=360, bins=384):
    g = torch.Generator().manual_seed(31)
    for _ in range(steps):
        clean = torch.rand(n, 1, angles, bins, generator=g)
        rings = 0.1 * torch.randn(n, 1, 1, bins, generator=g)
        yield (clean + rings).cuda(), clean.cuda()


for it, (ringed, clean) in enumerate(sinograms(8)):
    # discriminator
    optD.zero_grad(set_to_none=True)
    restored = netG(ringed)
    if "--fixed" in sys.argv:
        restored = restored.detach()
    lossD = F.relu(1 - netD(clean)).mean() + F.relu(1 + netD(restored)).mean()
    lossD.backward()
    optD.step()
    del restored

    # generator
    optG.zero_grad(set_to_none=True)
    restored = netG(ringed)
    lossG = -netD(restored).mean() + 100 * F.l1_loss(restored, clean)
    lossG.backward()
    optG.step()
    del restored
    print("it %d D %.3f G %.3f" % (it, lossD.item(), lossG.item()))
