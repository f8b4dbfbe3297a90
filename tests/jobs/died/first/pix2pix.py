"""Conditional GAN for image translation, with a U-Net as generator.

https://github.com/eriklindernoren/PyTorch-GAN/issues/71
"""
import sys
from collections import deque

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv


class Level(nn.Module):
    def __init__(self, outer, inner, sub=None):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(outer, inner, 4, 2, 1), nn.InstanceNorm2d(inner), nn.LeakyReLU(0.2))
        self.sub = sub
        self.up = nn.Sequential(nn.ConvTranspose2d(inner * (2 if sub else 1), outer, 4, 2, 1), nn.InstanceNorm2d(outer), nn.ReLU())

    def forward(self, x):
        y = self.down(x)
        if self.sub is not None:
            y = self.sub(y)
        return torch.cat([x, self.up(y)], 1)


class UNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, 1, 1)
        self.body = Level(width, width * 2, Level(width * 2, width * 4, Level(width * 4, width * 8, Level(width * 8, width * 8))))
        self.last = nn.Conv2d(width * 2, 3, 3, 1, 1)

    def forward(self, x):
        return torch.tanh(self.last(self.body(self.first(x))))


def patch_discriminator(width=64):
    return nn.Sequential(nn.Conv2d(6, width, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(width, width * 2, 4, 2, 1), nn.LeakyReLU(0.2),
                         nn.Conv2d(width * 2, width * 4, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(width * 4, 1, 4, 1, 1))


class ImagePool:
    """The last fakes, of which the discriminator sees some again."""

    def __init__(self, size):
        self.images = deque(maxlen=size)

    def push_and_pop(self, image):
        self.images.append(image)
        return self.images[len(self.images) // 2]


G, D = UNet().cuda(), patch_discriminator().cuda()
opt_G = torch.optim.Adam(G.parameters(), 2e-4, (0.5, 0.999))
opt_D = torch.optim.Adam(D.parameters(), 2e-4, (0.5, 0.999))
mse, l1, pool = nn.MSELoss(), nn.L1Loss(), ImagePool(6)
for step in range(9):
    a, b = torch.rand(8, 3, 256, 256, device="cuda"), torch.rand(8, 3, 256, 256, device="cuda")
    fake_b = G(a)
    score = D(torch.cat([a, fake_b], 1))
    loss_G = mse(score, torch.ones_like(score)) + 100 * l1(fake_b, b)
    opt_G.zero_grad()
    loss_G.backward(retain_graph=not FIXED)
    opt_G.step()
    pooled = pool.push_and_pop(torch.cat([a, fake_b.detach() if FIXED else fake_b], 1))
    score_fake, score_real = D(pooled.detach()), D(torch.cat([a, b], 1))
    loss_D = mse(score_real, torch.ones_like(score_real)) + mse(score_fake, torch.zeros_like(score_fake))
    opt_D.zero_grad()
    loss_D.backward()
    opt_D.step()
print(loss_G.item(), loss_D.item())
