"""WGAN with weight clipping that draws fingerprints; the curve of the critic on prints it never saw is plotted at the end."""
import sys

import torch
import torch.nn as nn

NZ, NGF, NDF, BATCH = 64, 32, 48, 32


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [NGF * 8, NGF * 4, NGF * 2, NGF]
        layers = [nn.ConvTranspose2d(NZ, widths[0], 4), nn.BatchNorm2d(widths[0]), nn.ReLU(True)]
        for a, b in zip(widths, widths[1:]):
            layers += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.ReLU(True)]
        self.main = nn.Sequential(*layers, nn.ConvTranspose2d(NGF, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.main(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        layers, before = [], 1
        for width in (NDF, NDF * 2, NDF * 4, NDF * 8):
            layers += [nn.Conv2d(before, width, 4, 2, 1), nn.InstanceNorm2d(width, affine=True), nn.LeakyReLU(0.2)]
            before = width
        self.main = nn.Sequential(*layers, nn.Conv2d(before, 1, 4))

    def forward(self, x):
        return self.main(x).view(-1)


netG, netD = Generator().cuda(), Critic().cuda()
optG, optD = torch.optim.RMSprop(netG.parameters(), lr=5e-5), torch.optim.RMSprop(netD.parameters(), lr=5e-5)
held_out = torch.rand(192, 1, 64, 64) * 2 - 1
history = {"loss_d": [], "loss_g": [], "held_out": []}

for it in range(12):
    for _ in range(3):
        for p in netD.parameters():
            p.data.clamp_(-0.01, 0.01)
        real = (torch.rand(BATCH, 1, 64, 64) * 2 - 1).cuda()
        fake = netG(torch.randn(BATCH, NZ, 1, 1).cuda()).detach()
        loss_d = netD(fake).mean() - netD(real).mean()
        optD.zero_grad()
        loss_d.backward()
        optD.step()
    loss_g = -netD(netG(torch.randn(BATCH, NZ, 1, 1).cuda())).mean()
    optG.zero_grad()
    loss_g.backward()
    optG.step()

    history["loss_d"].append(loss_d.item())
    history["loss_g"].append(loss_g.item())
    score = netD(held_out.cuda()).mean()
    history["held_out"].append(score.item() if "--fixed" in sys.argv else score)
    print(f"[{it}] D {history['loss_d'][-1]:.3f} G {history['loss_g'][-1]:.3f}")

curve = [float(v) for v in history["held_out"]]
print("held-out scores from", min(curve), "to", max(curve))
