"""Draws weathervanes. SN-GAN with hinge loss at 128 x 128, batch 48."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm as sn

FIXED = "--fixed" in sys.argv


class GBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.n1, self.n2 = nn.BatchNorm2d(cin), nn.BatchNorm2d(cout)
        self.c1, self.c2, self.s = nn.Conv2d(cin, cout, 3, 1, 1), nn.Conv2d(cout, cout, 3, 1, 1), nn.Conv2d(cin, cout, 1)

    def forward(self, x):
        y = self.c1(F.interpolate(F.relu(self.n1(x)), scale_factor=2))
        return self.c2(F.relu(self.n2(y))) + self.s(F.interpolate(x, scale_factor=2))


class DBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.c1, self.c2, self.s = sn(nn.Conv2d(cin, cout, 3, 1, 1)), sn(nn.Conv2d(cout, cout, 3, 1, 1)), sn(nn.Conv2d(cin, cout, 1))

    def forward(self, x):
        y = self.c2(F.relu(self.c1(F.relu(x))))
        return F.avg_pool2d(y, 2) + self.s(F.avg_pool2d(x, 2))


class Smith(nn.Module):
    def __init__(self, z=128):
        super().__init__()
        self.z, self.first = z, nn.Linear(z, 256 * 16)
        self.blocks = nn.Sequential(GBlock(256, 192), GBlock(192, 128), GBlock(128, 64), GBlock(64, 48), GBlock(48, 32))
        self.last = nn.Sequential(nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 1, 3, 1, 1), nn.Tanh())

    def forward(self, n):
        noise = torch.randn(n, self.z, device="cuda")
        return self.last(self.blocks(self.first(noise).view(n, 256, 4, 4)))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(sn(nn.Conv2d(1, 32, 3, 1, 1)), DBlock(32, 64), DBlock(64, 96), DBlock(96, 128), DBlock(128, 192))
        self.score = sn(nn.Linear(192, 1))

    def forward(self, x):
        return self.score(F.relu(self.blocks(x)).sum((2, 3)))


def photos(n, gen=torch.Generator().manual_seed(11)):
    return (torch.rand(n, 1, 128, 128, generator=gen) * 2 - 1).cuda()


smith, critic = Smith().cuda(), Critic().cuda()
opt_g = torch.optim.Adam(smith.parameters(), lr=2e-4, betas=(0.0, 0.9))
opt_d = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.0, 0.9))


def critic_step(n):
    real, fake = photos(n), smith(n)
    if FIXED:
        fake = fake.detach()
    loss = F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake)).mean()
    opt_d.zero_grad()
    loss.backward()
    opt_d.step()
    return loss.item()


def smith_step(n):
    loss = -critic(smith(n)).mean()
    opt_g.zero_grad()
    loss.backward()
    opt_g.step()
    return loss.item()


for it in range(4):
    d = [critic_step(48) for _ in range(2)]
    print(it, "critic", d[-1], "smith", smith_step(48))
