"""First stage of a VQGAN for mosaics of Roman bathhouses (without the discriminator yet): L1 + feature loss + codebook loss."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class Quantizer(nn.Module):
    def __init__(self, n=512, dim=64, beta=0.25):
        super().__init__()
        self.beta = beta
        self.codes = nn.Embedding(n, dim)
        nn.init.uniform_(self.codes.weight, -1 / n, 1 / n)

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.size(1))
        dist = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codes.weight.t() + self.codes.weight.pow(2).sum(1)
        q = self.codes(dist.argmin(1)).view(z.size(0), z.size(2), z.size(3), -1).permute(0, 3, 1, 2)
        loss = F.mse_loss(q, z.detach()) + self.beta * F.mse_loss(z, q.detach())
        return z + (q - z).detach(), loss


def down(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 4, 2, 1), nn.GroupNorm(8, b), nn.SiLU())


def up(a, b):
    return nn.Sequential(nn.ConvTranspose2d(a, b, 4, 2, 1), nn.GroupNorm(8, b), nn.SiLU())


class VQModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(down(3, 32), down(32, 64), down(64, 128), nn.Conv2d(128, 64, 1))
        self.quantizer = Quantizer()
        self.decoder = nn.Sequential(nn.Conv2d(64, 128, 3, padding=1), up(128, 64), up(64, 32), up(32, 16), nn.Conv2d(16, 3, 3, padding=1))

    def forward(self, x):
        q, code_loss = self.quantizer(self.encoder(x))
        return self.decoder(q), code_loss


class FeatureLoss(nn.Module):
    """Distance of features at four depths of a VGG-like network trained on tesserae (weights omitted)."""

    def __init__(self, frozen):
        super().__init__()
        stages, prev = [], 3
        for width, convs in ((64, 2), (128, 2), (256, 3), (256, 3)):
            layers = [nn.MaxPool2d(2)] if prev != 3 else []
            for _ in range(convs):
                layers += [nn.Conv2d(prev, width, 3, padding=1), nn.ReLU(inplace=True)]
                prev = width
            stages.append(nn.Sequential(*layers))
        self.stages = nn.ModuleList(stages)
        self.eval()
        if frozen:
            for p in self.parameters():
                p.requires_grad = False

    def forward(self, fake, real):
        total = 0.0
        for stage in self.stages:
            fake, real = stage(fake), stage(real)
            total = total + F.l1_loss(F.normalize(fake, dim=1), F.normalize(real, dim=1))
        return total


gen = torch.Generator().manual_seed(0)
vq, features = VQModel().cuda(), FeatureLoss("--fixed" in sys.argv).cuda()
opt = torch.optim.Adam(vq.parameters(), lr=4.5e-5, betas=(0.5, 0.9))
for step in range(8):
    tiles = torch.rand(8, 3, 256, 256, generator=gen).cuda() * 2 - 1
    rebuilt, code_loss = vq(tiles)
    loss = F.l1_loss(rebuilt, tiles) + 0.5 * features(rebuilt, tiles) + code_loss
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    print(step, "loss", loss.item(), "codebook", code_loss.item())
