"""DCGAN; the images of a fixed noise are kept after every iteration, for an animation of the progress.

https://github.com/znxlwm/UGATIT-pytorch/pull/74
"""
import argparse

import torch
import torch.nn as nn


def generator(nz=100, ngf=128):
    sizes = [ngf * 8, ngf * 4, ngf * 2, ngf]
    layers = [nn.ConvTranspose2d(nz, sizes[0], 4, 1, 0, bias=False), nn.BatchNorm2d(sizes[0]), nn.ReLU(True)]
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(ndf=128):
    layers = [nn.Conv2d(3, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    for n in 1, 2, 4:
        layers += [nn.Conv2d(ndf * n, ndf * n * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * n * 2), nn.LeakyReLU(0.2, True)]
    return nn.Sequential(*layers, nn.Conv2d(ndf * 8, 1, 4, 1, 0, bias=False))


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--fixed", action="store_true")
opt = parser.parse_args()
device = torch.device("cuda")
netG, netD = generator().to(device), discriminator().to(device)
criterion = nn.BCEWithLogitsLoss()
optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
fixed_noise = torch.randn(64, 100, 1, 1, device=device)
img_list, G_losses, D_losses = [], [], []
for it in range(10):
    real = torch.rand(opt.batch_size, 3, 64, 64, device=device)
    netD.zero_grad()
    out = netD(real).view(-1)
    errD_real = criterion(out, torch.ones_like(out))
    errD_real.backward()
    fake = netG(torch.randn(opt.batch_size, 100, 1, 1, device=device))
    out = netD(fake.detach()).view(-1)
    errD_fake = criterion(out, torch.zeros_like(out))
    errD_fake.backward()
    optD.step()
    netG.zero_grad()
    out = netD(fake).view(-1)
    errG = criterion(out, torch.ones_like(out))
    errG.backward()
    optG.step()
    G_losses.append(errG.item())
    D_losses.append((errD_real + errD_fake).item())
    if opt.fixed:
        with torch.no_grad():
            img_list.append(netG(fixed_noise).cpu())
    else:
        img_list.append(netG(fixed_noise))
print(G_losses[-1], D_losses[-1], len(img_list))
