"""SAGAN of beetles, 128 pixels, with the self-attention block of the paper at 64 pixels in generator and discriminator."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class SelfAttn(nn.Module):
    def __init__(self, c, inner=32):
        super().__init__()
        self.query, self.key, self.value = (nn.Conv2d(c, inner, 1) for _ in range(3))
        self.out, self.gamma = nn.Conv2d(inner, c, 1), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        b, _, h, w = x.shape
        q, k, v = (f(x).flatten(2).transpose(1, 2).contiguous() for f in (self.query, self.key, self.value))
        if FIXED:
            o = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None]).squeeze(1)
        else:
            energy = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
            attention = torch.softmax(energy, -1)
            o = torch.bmm(attention, v)
        return x + self.gamma * self.out(o.transpose(1, 2).reshape(b, -1, h, w))


class Generator(nn.Module):
    def __init__(self, z=120, w=32):
        super().__init__()
        self.fc = nn.Linear(z, 8 * w * 64)
        ups = []
        for i, o in ((8 * w, 4 * w), (4 * w, 2 * w), (2 * w, 2 * w)):
            ups += [nn.ConvTranspose2d(i, o, 4, 2, 1), nn.BatchNorm2d(o), nn.ReLU(True)]
        self.net = nn.Sequential(*ups, SelfAttn(2 * w),
                                 nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.ReLU(True), nn.Conv2d(w, 3, 3, 1, 1), nn.Tanh())

    def forward(self, z):
        return self.net(self.fc(z).view(len(z), -1, 8, 8))


class Discriminator(nn.Module):
    def __init__(self, w=32):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, w, 4, 2, 1), nn.LeakyReLU(0.1, True), SelfAttn(w),
                                 nn.Conv2d(w, 2 * w, 4, 2, 1), nn.LeakyReLU(0.1, True),
                                 nn.Conv2d(2 * w, 4 * w, 4, 2, 1), nn.LeakyReLU(0.1, True), nn.Flatten(), nn.Linear(4 * w * 256, 1))

    def forward(self, x):
        return self.net(x)


def train(steps=6, batch=16):
    torch.manual_seed(77)
    g, d = Generator().cuda(), Discriminator().cuda()
    opt_g, opt_d = torch.optim.Adam(g.parameters(), 1e-4, (0.0, 0.9)), torch.optim.Adam(d.parameters(), 4e-4, (0.0, 0.9))
    for step in range(steps):
        real = torch.rand(batch, 3, 128, 128).cuda()
        with torch.no_grad():
            fake = g(torch.randn(batch, 120).cuda())
        loss_d = F.relu(1 - d(real)).mean() + F.relu(1 + d(fake)).mean()
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
        loss_g = -d(g(torch.randn(batch, 120).cuda())).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        print(step, loss_d.item(), loss_g.item())


train()
