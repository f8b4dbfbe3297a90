"""CycleGAN between summer and winter photos; the generators' losses are adversarial, cycle and identity, both ways."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.InstanceNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, padding=1), nn.InstanceNorm2d(width))

    def forward(self, x):
        return x + self.body(x)


def generator(width=32, blocks=4):
    return nn.Sequential(
        nn.Conv2d(3, width, 7, padding=3), nn.InstanceNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, 2, 1), nn.InstanceNorm2d(2 * width), nn.ReLU(),
        *[Residual(2 * width) for _ in range(blocks)],
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.InstanceNorm2d(width), nn.ReLU(), nn.Conv2d(width, 3, 7, padding=3), nn.Tanh())


def critic(width=32):
    return nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(width, 2 * width, 4, 2, 1), nn.InstanceNorm2d(2 * width),
                         nn.LeakyReLU(0.2), nn.Conv2d(2 * width, 1, 4, 1, 1))


class CycleGAN:
    def __init__(self):
        self.to_winter, self.to_summer = generator().cuda(), generator().cuda()
        self.winter, self.summer = critic().cuda(), critic().cuda()
        self.g = torch.optim.Adam([*self.to_winter.parameters(), *self.to_summer.parameters()], 2e-4, (0.5, 0.999))
        self.d = torch.optim.Adam([*self.winter.parameters(), *self.summer.parameters()], 2e-4, (0.5, 0.999))

    def terms(self, photo, forth, back, judge, target):
        """What one direction costs the generators."""
        fake = forth(photo)
        score = judge(fake)
        yield F.mse_loss(score, torch.ones_like(score)) + 10 * F.l1_loss(back(fake), photo), fake
        yield 5 * F.l1_loss(forth(target), target), None

    def step(self, summer, winter):
        for p in [*self.winter.parameters(), *self.summer.parameters()]:
            p.requires_grad_(False)
        self.g.zero_grad()
        fakes, total = [], 0.0
        for way in ((summer, self.to_winter, self.to_summer, self.winter, winter), (winter, self.to_summer, self.to_winter, self.summer, summer)):
            for term, fake in self.terms(*way):
                if fake is not None:
                    fakes.append(fake.detach())
                if FIXED:
                    term.backward()
                else:
                    total = total + term
                del term, fake
        if not FIXED:
            total.backward()
        self.g.step()
        for p in [*self.winter.parameters(), *self.summer.parameters()]:
            p.requires_grad_(True)
        self.d.zero_grad()
        for judge, real, fake in ((self.winter, winter, fakes[0]), (self.summer, summer, fakes[1])):
            good, bad = judge(real), judge(fake)
            (F.mse_loss(good, torch.ones_like(good)) + F.mse_loss(bad, torch.zeros_like(bad))).backward()
        self.d.step()


model = CycleGAN()
for n in range(3):
    model.step(torch.zeros(4, 3, 128, 128).cuda(), torch.zeros(4, 3, 128, 128).cuda())
    print("step", n)
