"""Makes leather textures for the configurator of a car maker: a residual generator against a patch discriminator with hinge loss."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

LATENT = 96


class Up(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.n1, self.c1 = nn.BatchNorm2d(a), nn.Conv2d(a, b, 3, padding=1)
        self.n2, self.c2 = nn.BatchNorm2d(b), nn.Conv2d(b, b, 3, padding=1)
        self.skip = nn.Conv2d(a, b, 1)

    def forward(self, x):
        h = self.c1(F.interpolate(F.relu(self.n1(x)), scale_factor=2))
        return self.c2(F.relu(self.n2(h))) + F.interpolate(self.skip(x), scale_factor=2)


class Tannery(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Linear(LATENT, 256 * 8 * 8)
        self.body = nn.Sequential(Up(256, 192), Up(192, 128), Up(128, 64), Up(64, 32), Up(32, 16))
        self.rgb = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, z):
        return torch.tanh(self.rgb(self.body(self.start(z).view(-1, 256, 8, 8))))


class Inspector(nn.Module):
    def __init__(self):
        super().__init__()
        layers, before = [], 3
        for width, stride in ((48, 1), (64, 2), (64, 1), (128, 2), (128, 1), (192, 2)):
            layers += [nn.utils.spectral_norm(nn.Conv2d(before, width, 3, stride, 1)), nn.LeakyReLU(0.2)]
            before = width
        self.net = nn.Sequential(*layers, nn.Conv2d(before, 1, 3, padding=1))

    def forward(self, x):
        return self.net(x)


def hides(steps, batch=16):
    g = torch.Generator().manual_seed(1)
    for _ in range(steps):
        yield torch.rand(batch, 3, 256, 256, generator=g) * 2 - 1, torch.randn(2, batch, LATENT, generator=g)


gen, disc = Tannery().cuda(), Inspector().cuda()
opt_g = torch.optim.Adam(gen.parameters(), lr=1e-4, betas=(0.0, 0.9))
opt_d = torch.optim.Adam(disc.parameters(), lr=4e-4, betas=(0.0, 0.9))

for step, (real, z) in enumerate(hides(5)):
    real, z = real.cuda(), z.cuda()

    fake = gen(z[0])
    if "--fixed" in sys.argv:
        fake = fake.detach()
    d_loss = F.relu(1 - disc(real)).mean() + F.relu(1 + disc(fake)).mean()
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    del fake

    g_loss = -disc(gen(z[1])).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    print("step", step, "d", d_loss.item(), "g", g_loss.item())
    del d_loss, g_loss
