"""VAE-GAN of marionette faces (64 pixels)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
Z = 96


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 4, 2, 1), nn.ReLU())
        self.mu, self.lv = nn.Linear(128 * 64, Z), nn.Linear(128 * 64, Z)

    def forward(self, x):
        h = self.c(x).flatten(1)
        return self.mu(h), self.lv(h)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(Z, 128 * 64)
        self.c = nn.Sequential(nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(),
                               nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.c(self.f(z).view(-1, 128, 8, 8))


class Critic(nn.Module):
    def __init__(self, w=64):
        super().__init__()
        act = lambda: nn.LeakyReLU(0.2)
        self.c = nn.Sequential(nn.Conv2d(3, w, 3, 1, 1), act(), nn.Conv2d(w, w, 3, 1, 1), act(), nn.Conv2d(w, 2 * w, 4, 2, 1), act(),
                               nn.Conv2d(2 * w, 2 * w, 3, 1, 1), act(), nn.Conv2d(2 * w, 4 * w, 4, 2, 1), act(), nn.Conv2d(4 * w, 1, 4))

    def forward(self, x):
        return self.c(x).mean((1, 2, 3))


def bce(logits, value):
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, value))


enc, dec, critic = Encoder().cuda(), Decoder().cuda(), Critic().cuda()
opt_g = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 2e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(critic.parameters(), 2e-4, betas=(0.5, 0.999))
puppets = torch.rand(96, 3, 64, 64) * 2 - 1
for it in range(8):
    x = puppets.roll(it, 0).cuda()
    mu, lv = enc(x)
    recon = dec(mu + torch.randn_like(mu) * (0.5 * lv).exp())

    # critic
    opt_d.zero_grad()
    if FIXED:
        d_loss = bce(critic(x), 1.0) + bce(critic(recon.detach()), 0.0)
        d_loss.backward()
    else:
        d_loss = bce(critic(x), 1.0) + bce(critic(recon), 0.0)
        d_loss.backward(retain_graph=True)
    opt_d.step()

    # autoencoder
    opt_g.zero_grad()
    kl = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).mean()
    g_loss = F.l1_loss(recon, x) + 0.01 * kl + 0.05 * bce(critic(recon), 1.0)
    g_loss.backward()
    opt_g.step()
    print(it, "d", d_loss.item(), "g", g_loss.item())
