"""VAE for slices of simulated matter density; the curves of PSNR and SSIM go to a plot at the end."""
import sys
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn


class SliceVAE(nn.Module):
    def __init__(self, z=64):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.SiLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.SiLU(), nn.Conv2d(32, 64, 4, 2, 1),
                                 nn.SiLU(), nn.Flatten())
        self.mu, self.logvar = nn.Linear(64 * 28 * 28, z), nn.Linear(64 * 28 * 28, z)
        self.up = nn.Linear(z, 64 * 28 * 28)
        self.dec = nn.Sequential(nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.SiLU(),
                                 nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Softplus())

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(self.up(z).view(-1, 64, 28, 28)), mu, logvar


def ssim(a, b, window=7):
    ma, mb = F.avg_pool2d(a, window, 1), F.avg_pool2d(b, window, 1)
    va = F.avg_pool2d(a * a, window, 1) - ma * ma
    vb = F.avg_pool2d(b * b, window, 1) - mb * mb
    cov = F.avg_pool2d(a * b, window, 1) - ma * mb
    return ((2 * ma * mb + 1e-4) * (2 * cov + 9e-4) / ((ma * ma + mb * mb + 1e-4) * (va + vb + 9e-4))).mean()


def psnr(a, b):
    return -10 * torch.log10(F.mse_loss(a, b))


def main():
    curves = defaultdict(list)
    model = SliceVAE().cuda()
    opt = torch.optim.Adamax(model.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(2)
    for step in range(30):
        x = torch.rand(24, 1, 224, 224, generator=gen).cuda()
        recon, mu, logvar = model(x)
        kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1).mean()
        loss = F.mse_loss(recon, x) * 224 * 224 + kl
        if "--fixed" in sys.argv:
            recon = recon.detach()
        curves["psnr"].append(psnr(recon, x))
        curves["ssim"].append(ssim(recon, x))
        curves["loss"].append(loss.item())
        opt.zero_grad()
        loss.backward()
        opt.step()
    for name, values in curves.items():
        print(name, [round(float(v), 3) for v in values[-3:]])


main()
