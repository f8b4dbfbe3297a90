"""A hinge GAN that draws letters of fonts; both networks see batches of 64 pictures of 64 pixels."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm

FIXED = "--fixed" in sys.argv
NOISE, BATCH = 96, 64


class Grow(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(before), nn.Conv2d(before, after, 3, padding=1)
        self.norm2, self.conv2 = nn.BatchNorm2d(after), nn.Conv2d(after, after, 3, padding=1)
        self.skip = nn.Conv2d(before, after, 1)

    def forward(self, x):
        y = F.interpolate(F.relu(self.norm1(x)), scale_factor=2)
        y = self.conv2(F.relu(self.norm2(self.conv1(y))))
        return y + self.skip(F.interpolate(x, scale_factor=2))


class Generator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.start = nn.Linear(NOISE, 4 * width * 16)
        self.grow = nn.Sequential(Grow(4 * width, 4 * width), Grow(4 * width, 2 * width), Grow(2 * width, 2 * width), Grow(2 * width, width))
        self.end = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 1, 3, padding=1), nn.Tanh())

    def forward(self, noise):
        return self.end(self.grow(self.start(noise).view(len(noise), -1, 4, 4)))


def critic(width=64):
    layers, before = [], 1
    for after in (width, 2 * width, 4 * width, 4 * width):
        layers += [spectral_norm(nn.Conv2d(before, after, 4, 2, 1)), nn.LeakyReLU(0.1)]
        before = after
    return nn.Sequential(*layers, nn.Flatten(), spectral_norm(nn.Linear(before * 16, 1)))


class Game:
    def __init__(self):
        self.g, self.d = Generator().cuda(), critic().cuda()
        self.g_optimizer = torch.optim.Adam(self.g.parameters(), lr=1e-4, betas=(0.0, 0.9))
        self.d_optimizer = torch.optim.Adam(self.d.parameters(), lr=4e-4, betas=(0.0, 0.9))

    def letters(self):
        return self.g(torch.randn(BATCH, NOISE).cuda())

    def critic_step(self, real):
        # Several drawings for each batch of real letters steady the critic.
        drawn = []
        for _ in range(3):
            fake = self.letters()
            drawn.append(fake.detach() if FIXED else fake)
        loss = F.relu(1 - self.d(real)).mean() + F.relu(1 + self.d(torch.cat(drawn))).mean()
        self.d_optimizer.zero_grad()
        loss.backward()
        self.d_optimizer.step()
        return loss.item()

    def generator_step(self):
        loss = -self.d(self.letters()).mean()
        self.g_optimizer.zero_grad()
        loss.backward()
        self.g_optimizer.step()
        return loss.item()


game = Game()
for step in range(5):
    d = game.critic_step(torch.zeros(BATCH, 1, 64, 64).cuda())
    g = game.generator_step()
    print("step", step, "critic", d, "generator", g)
