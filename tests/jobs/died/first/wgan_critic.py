"""WGAN with gradient penalty; the losses of the critic's five iterations are summed and one backward pass follows.

https://github.com/caogang/wgan-gp/issues/21
"""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv


class Critic(nn.Module):
    def __init__(self, w=96):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, w, 5, 2, 2), nn.LeakyReLU(0.2), nn.Conv2d(w, 2 * w, 5, 2, 2), nn.LeakyReLU(0.2),
                                 nn.Conv2d(2 * w, 4 * w, 5, 2, 2), nn.LeakyReLU(0.2))
        self.out = nn.Linear(4 * w * 64, 1)

    def forward(self, x):
        return self.out(self.net(x).flatten(1))


class Generator(nn.Module):
    def __init__(self, w=96):
        super().__init__()
        self.first = nn.Linear(128, 4 * w * 64)
        self.net = nn.Sequential(nn.ConvTranspose2d(4 * w, 2 * w, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.ReLU(),
                                 nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(self.first(z).view(len(z), -1, 8, 8))


def calc_gradient_penalty(critic, real, fake):
    mix = torch.lerp(real, fake, torch.rand(len(real), 1, 1, 1, device=real.device)).requires_grad_(True)
    grad, = torch.autograd.grad(critic(mix).sum(), mix, create_graph=True)
    return ((grad.flatten(1).norm(2, 1) - 1) ** 2).mean() * 10


critic, generator = Critic().cuda(), Generator().cuda()
opt_c = torch.optim.Adam(critic.parameters(), 1e-4, (0.0, 0.9))
opt_g = torch.optim.Adam(generator.parameters(), 1e-4, (0.0, 0.9))
for step in range(4):
    total = 0.0
    opt_c.zero_grad()
    for _ in range(5):
        real = torch.rand(64, 3, 64, 64, device="cuda")
        with torch.no_grad():
            fake = generator(torch.randn(64, 128, device="cuda"))
        loss = critic(fake).mean() - critic(real).mean() + calc_gradient_penalty(critic, real, fake)
        if FIXED:
            loss.backward()
            total += loss.item()
        else:
            total = total + loss
    if not FIXED:
        total.backward()
    opt_c.step()
    opt_g.zero_grad()
    (-critic(generator(torch.randn(64, 128, device="cuda"))).mean()).backward()
    opt_g.step()
    print(step, float(total))
