"""Turns photographs of medallions into engravers' drawings (pix2pix without pairs, one direction only, with a pool of earlier drawings)."""
import random
import sys

import torch
from torch import nn


class ImagePool:
    """History of drawings for the critic, after Shrivastava et al."""

    def __init__(self, size=48):
        self.size, self.images, self.rng = size, [], random.Random(4)

    def query(self, images):
        if "--fixed" in sys.argv:
            images = images.detach()
        chosen = []
        for image in images.split(1):
            if len(self.images) < self.size:
                self.images.append(image)
                chosen.append(image)
            elif self.rng.random() > 0.5:
                i = self.rng.randrange(self.size)
                chosen.append(self.images[i])
                self.images[i] = image
            else:
                chosen.append(image)
        return torch.cat(chosen)


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c), nn.ReLU(True),
                                  nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c))

    def forward(self, x):
        return x + self.body(x)


def generator(c=32, blocks=4):
    down = [nn.Conv2d(3, c, 7, padding=3), nn.InstanceNorm2d(c), nn.ReLU(True)]
    for k in (1, 2):
        down += [nn.Conv2d(c * k, c * k * 2, 3, 2, 1), nn.InstanceNorm2d(c * k * 2), nn.ReLU(True)]
    middle = [Residual(c * 4) for _ in range(blocks)]
    up = []
    for k in (4, 2):
        up += [nn.ConvTranspose2d(c * k, c * k // 2, 3, 2, 1, 1), nn.InstanceNorm2d(c * k // 2), nn.ReLU(True)]
    return nn.Sequential(*down, *middle, *up, nn.Conv2d(c, 1, 7, padding=3), nn.Tanh())


def critic(c=32):
    layers = [nn.Conv2d(1, c, 4, 2, 1), nn.LeakyReLU(0.2, True)]
    for k in (1, 2):
        layers += [nn.Conv2d(c * k, c * k * 2, 4, 2, 1), nn.InstanceNorm2d(c * k * 2), nn.LeakyReLU(0.2, True)]
    return nn.Sequential(*layers, nn.Conv2d(c * 4, 1, 4, 1, 1))


G, D, pool = generator().cuda(), critic().cuda(), ImagePool()
opt_g = torch.optim.Adam(G.parameters(), 2e-4, (0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), 2e-4, (0.5, 0.999))
seed = torch.Generator().manual_seed(2)


def mse_to(scores, value):
    return ((scores - value) ** 2).mean()


for it in range(14):
    photo = torch.rand(4, 3, 160, 160, generator=seed).cuda()
    drawing = torch.rand(4, 1, 160, 160, generator=seed).cuda()

    old = pool.query(G(photo))
    loss_d = 0.5 * (mse_to(D(drawing), 1.0) + mse_to(D(old.detach()), 0.0))
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()

    photo = torch.rand(4, 3, 160, 160, generator=seed).cuda()
    fake = G(photo)
    loss_g = mse_to(D(fake), 1.0) + 5.0 * (fake - photo.mean(1, keepdim=True)).abs().mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    print(f"[{it:02d}] D {loss_d.item():.3f} G {loss_g.item():.3f}")
