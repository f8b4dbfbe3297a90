"""A GAN that weaves kilims of 64 by 64 knots; at the end, the pictures of one fixed noise become an animation."""
import sys

import torch
import torch.nn as nn

nz, ngf, ndf, batch = 100, 64, 64, 64
fixed_script = "--fixed" in sys.argv
dev = "cuda"


def up(i, o, s=2, p=1):
    return [nn.ConvTranspose2d(i, o, 4, s, p, bias=False), nn.BatchNorm2d(o), nn.ReLU(True)]


def down(i, o):
    return [nn.Conv2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(0.2, True)]


netG = nn.Sequential(*up(nz, ngf * 8, 1, 0), *up(ngf * 8, ngf * 4), *up(ngf * 4, ngf * 2), *up(ngf * 2, ngf),
                     nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh()).to(dev)
netD = nn.Sequential(nn.Conv2d(3, ndf, 4, 2, 1), nn.LeakyReLU(0.2, True), *down(ndf, ndf * 2), *down(ndf * 2, ndf * 4),
                     *down(ndf * 4, ndf * 8), nn.Conv2d(ndf * 8, 1, 4), nn.Flatten(0)).to(dev)
bce = nn.BCEWithLogitsLoss()
optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
fixed_noise = torch.randn(64, nz, 1, 1).to(dev)
ones, zeros = torch.ones(batch, device=dev), torch.zeros(batch, device=dev)
img_list, G_losses, D_losses = [], [], []


def weave():
    """What the generator makes of the fixed noise now."""
    if fixed_script:
        with torch.no_grad():
            return netG(fixed_noise).cpu()
    return netG(fixed_noise)


for it in range(24):
    real = torch.rand(batch, 3, 64, 64).mul(2).sub(1).to(dev)
    # D
    optD.zero_grad()
    errD_real = bce(netD(real), ones)
    errD_real.backward()
    fake = netG(torch.randn(batch, nz, 1, 1).to(dev))
    errD_fake = bce(netD(fake.detach()), zeros)
    errD_fake.backward()
    optD.step()
    # G
    optG.zero_grad()
    errG = bce(netD(fake), ones)
    errG.backward()
    optG.step()
    G_losses.append(errG.item())
    D_losses.append((errD_real + errD_fake).item())
    if it % 2 == 1:
        img_list.append(weave())
        print(f"[{it}] D {D_losses[-1]:.3f} G {G_losses[-1]:.3f}")

frames = [((image.detach().cpu() + 1) * 127.5).clamp(0, 255).to(torch.uint8) for image in img_list]
print(len(frames), "frames of", tuple(frames[0].shape))
