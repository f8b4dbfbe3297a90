"""Sketches to photos, without pairs. The discriminator's loss is computed on what the generator has just made, without detach(), and with
retain_graph=True because the second backward pass complained."""
import argparse

import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--fixed", action="store_true")
opt = p.parse_args()


def block(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1), nn.InstanceNorm2d(o), nn.LeakyReLU(0.2))


class Generator(nn.Module):
    def __init__(self, w=64):
        super().__init__()
        self.down = nn.Sequential(block(1, w), block(w, 2 * w, 2), block(2 * w, 4 * w, 2))
        self.middle = nn.Sequential(*[block(4 * w, 4 * w) for _ in range(6)])
        self.up = nn.Sequential(nn.ConvTranspose2d(4 * w, 2 * w, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.ReLU(),
                                nn.Conv2d(w, 3, 3, 1, 1), nn.Tanh())

    def forward(self, x):
        return self.up(self.middle(self.down(x)))


class Critic(nn.Module):
    def __init__(self, w=96):
        super().__init__()
        self.net = nn.Sequential(block(3, w), block(w, w), block(w, 2 * w, 2), block(2 * w, 2 * w), block(2 * w, 4 * w, 2), block(4 * w, 4 * w),
                                 nn.Conv2d(4 * w, 1, 3, 1, 1))

    def forward(self, x):
        return self.net(x)


G, D = Generator().cuda(), Critic().cuda()
og = torch.optim.Adam(G.parameters(), 2e-4, (0.5, 0.999))
od = torch.optim.Adam(D.parameters(), 2e-4, (0.5, 0.999))
bce = nn.functional.binary_cross_entropy_with_logits
for step in range(8):
    sketch = torch.rand(8, 1, 192, 192).cuda()
    photo = torch.rand(8, 3, 192, 192).cuda()
    fake = G(sketch)
    on_real = D(photo)
    on_fake = D(fake.detach() if opt.fixed else fake)
    d_loss = bce(on_real, torch.ones_like(on_real)) + bce(on_fake, torch.zeros_like(on_fake))
    od.zero_grad()
    d_loss.backward(retain_graph=not opt.fixed)
    if opt.fixed:
        del on_real, on_fake
    g_fool = D(fake)
    g_loss = bce(g_fool, torch.ones_like(g_fool))
    og.zero_grad()
    g_loss.backward()
    og.step()
    od.step()
    print(step, d_loss.item(), g_loss.item())
