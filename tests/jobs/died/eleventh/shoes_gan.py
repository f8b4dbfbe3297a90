"""A GAN with hinge loss and spectral norm that draws shoes of 64 x 64 pixels."""
import sys
from contextlib import nullcontext

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm

STOP_AT_FAKE = "--fixed" in sys.argv
LATENT, BATCH, STEPS = 128, 48, 5


class UpBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.norm2, self.conv2 = nn.BatchNorm2d(cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1)

    def forward(self, x):
        y = self.conv1(F.interpolate(F.relu(self.norm1(x)), scale_factor=2))
        y = self.conv2(F.relu(self.norm2(y)))
        return y + self.skip(F.interpolate(x, scale_factor=2))


class DownBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1 = spectral_norm(nn.Conv2d(cin, cout, 3, padding=1))
        self.conv2 = spectral_norm(nn.Conv2d(cout, cout, 3, padding=1))
        self.skip = spectral_norm(nn.Conv2d(cin, cout, 1))

    def forward(self, x):
        y = self.conv2(F.leaky_relu(self.conv1(x), 0.1))
        return F.avg_pool2d(F.leaky_relu(y, 0.1), 2) + self.skip(F.avg_pool2d(x, 2))


class Generator(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.width = width
        self.start = nn.Linear(LATENT, 8 * width * 16)
        self.blocks = nn.Sequential(UpBlock(8 * width, 4 * width), UpBlock(4 * width, 2 * width),
                                    UpBlock(2 * width, 2 * width), UpBlock(2 * width, width))
        self.end = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 3, 3, padding=1), nn.Tanh())

    def forward(self, z):
        return self.end(self.blocks(self.start(z).view(-1, 8 * self.width, 4, 4)))


class Discriminator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.blocks = nn.Sequential(DownBlock(3, width), DownBlock(width, 2 * width),
                                    DownBlock(2 * width, 4 * width), DownBlock(4 * width, 4 * width))
        self.out = spectral_norm(nn.Linear(4 * width, 1))

    def forward(self, x):
        return self.out(F.leaky_relu(self.blocks(x), 0.1).sum((2, 3)))


def shoes():
    photos = torch.rand(BATCH, 3, 64, 64) * 2 - 1
    for _ in range(STEPS):
        yield photos.cuda()


def main():
    netG, netD = Generator().cuda(), Discriminator().cuda()
    optimG = torch.optim.Adam(netG.parameters(), lr=1e-4, betas=(0.0, 0.9))
    optimD = torch.optim.Adam(netD.parameters(), lr=4e-4, betas=(0.0, 0.9))
    for step, real in enumerate(shoes()):
        # discriminator
        optimD.zero_grad()
        with torch.no_grad() if STOP_AT_FAKE else nullcontext():
            fake = netG(torch.randn(BATCH, LATENT, device="cuda"))
        lossD = F.relu(1 - netD(real)).mean() + F.relu(1 + netD(fake)).mean()
        lossD.backward()
        optimD.step()
        del fake, real
        # generator
        optimG.zero_grad()
        for p in netD.parameters():
            p.requires_grad_(False)
        lossG = -netD(netG(torch.randn(BATCH, LATENT, device="cuda"))).mean()
        lossG.backward()
        optimG.step()
        for p in netD.parameters():
            p.requires_grad_(True)
        print("[%d/%d] loss D %.3f, loss G %.3f" % (step, STEPS, lossD.item(), lossG.item()))


main()
