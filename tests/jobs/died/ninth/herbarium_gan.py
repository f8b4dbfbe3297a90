"""A conditional GAN draws leaves of herbarium sheets (hinge loss, spectral normalisation in the discriminator, 128 x 128 pixels)."""
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

FIXED = "--fixed" in sys.argv
SPECIES, NOISE = 60, 128


class Up(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(cin), nn.BatchNorm2d(cout)
        self.conv1, self.conv2 = nn.Conv2d(cin, cout, 3, 1, 1), nn.Conv2d(cout, cout, 3, 1, 1)
        self.skip = nn.Conv2d(cin, cout, 1)

    def forward(self, x):
        y = self.conv1(F.interpolate(F.relu(self.bn1(x)), scale_factor=2))
        y = self.conv2(F.relu(self.bn2(y)))
        return y + F.interpolate(self.skip(x), scale_factor=2)


class Generator(nn.Module):
    def __init__(self, w=48):
        super().__init__()
        self.species = nn.Embedding(SPECIES, NOISE)
        self.first = nn.Linear(2 * NOISE, 8 * w * 16)
        self.layers = nn.Sequential(Up(8 * w, 8 * w), Up(8 * w, 4 * w), Up(4 * w, 2 * w), Up(2 * w, w), Up(w, w))
        self.out = nn.Sequential(nn.BatchNorm2d(w), nn.ReLU(), nn.Conv2d(w, 3, 3, 1, 1), nn.Tanh())

    def forward(self, noise, species):
        x = self.first(torch.cat([noise, self.species(species)], 1))
        return self.out(self.layers(x.view(len(x), -1, 4, 4)))


class Discriminator(nn.Module):
    def __init__(self, w=88):
        super().__init__()
        layers, cin = [], 3
        for cout in w, 2 * w, 4 * w, 8 * w:
            layers += [spectral_norm(nn.Conv2d(cin, cout, 3, 1, 1)), nn.LeakyReLU(0.2)]
            layers += [spectral_norm(nn.Conv2d(cout, cout, 4, 2, 1)), nn.LeakyReLU(0.2)]
            cin = cout
        self.layers = nn.Sequential(*layers)
        self.score, self.species = spectral_norm(nn.Linear(cin, 1)), nn.Embedding(SPECIES, cin)

    def forward(self, x, species):
        x = self.layers(x).sum((2, 3))
        return self.score(x).squeeze(1) + (self.species(species) * x).sum(1)


def main(batch=16):
    g, d = Generator().to("cuda"), Discriminator().to("cuda")
    opt_g = torch.optim.Adam(g.parameters(), lr=1e-4, betas=(0.0, 0.9))
    opt_d = torch.optim.Adam(d.parameters(), lr=4e-4, betas=(0.0, 0.9))
    for step in range(4):
        leaves = torch.zeros(batch, 3, 128, 128).to("cuda")
        species = torch.randint(0, SPECIES, (batch,)).to("cuda")

        opt_d.zero_grad()
        drawn = g(torch.randn(batch, NOISE, device="cuda"), species)
        if FIXED:
            drawn = drawn.detach()
        loss_d = F.relu(1 - d(leaves, species)).mean() + F.relu(1 + d(drawn, species)).mean()
        loss_d.backward()
        opt_d.step()
        del drawn

        opt_g.zero_grad()
        d.requires_grad_(False)
        loss_g = -d(g(torch.randn(batch, NOISE, device="cuda"), species), species).mean()
        loss_g.backward()
        opt_g.step()
        d.requires_grad_(True)
        print("step", step, "d", loss_d.item(), "g", loss_g.item())


main()
