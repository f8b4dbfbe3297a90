"""Relights photographs of furniture as if taken in the showroom; trained with L1 and a feature loss on a VGG-like network."""
import sys

import torch
from torch import nn
from torch.nn import functional as F

FIXED = "--fixed" in sys.argv


def vgg_layers(plan=(64, 64, "M", 128, 128, "M", 256, 256, 256)):
    layers, before = [], 3
    for item in plan:
        if item == "M":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(before, item, 3, padding=1), nn.ReLU(inplace=True)]
            before = item
    return nn.Sequential(*layers)


class FeatureLoss(nn.Module):
    def __init__(self, taps=(3, 8, 15)):
        super().__init__()
        self.vgg = vgg_layers().eval()
        self.taps = taps
        if FIXED:
            for p in self.vgg.parameters():
                p.requires_grad_(False)

    def features(self, x):
        found = []
        for i, layer in enumerate(self.vgg):
            x = layer(x)
            if i in self.taps:
                found.append(x)
        return found

    def forward(self, guess, truth):
        return sum(F.l1_loss(a, b) for a, b in zip(self.features(guess), self.features(truth)))


class Relighter(nn.Module):
    def __init__(self, w=20):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(3, w, 3, 2, 1), nn.ReLU())
        self.b = nn.Sequential(nn.Conv2d(w, 2 * w, 3, 2, 1), nn.ReLU(), nn.Conv2d(2 * w, 2 * w, 3, 1, 1), nn.ReLU())
        self.c = nn.Sequential(nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.ReLU())
        self.d = nn.ConvTranspose2d(2 * w, 3, 4, 2, 1)

    def forward(self, x):
        a = self.a(x)
        return torch.sigmoid(self.d(torch.cat([a, self.c(self.b(a))], 1)))


def pairs(n, size=8, side=256):
    gen = torch.Generator().manual_seed(77)
    for _ in range(n):
        home = torch.rand(size, 3, side, side, generator=gen)
        yield home, home.clamp(0.1, 0.9)


relighter, feature_loss = Relighter().to("cuda"), FeatureLoss().to("cuda")
optimizer = torch.optim.Adam(relighter.parameters(), lr=2e-4)
for it, (home, showroom) in enumerate(pairs(6)):
    home, showroom = home.to("cuda"), showroom.to("cuda")
    lit = relighter(home)
    loss = F.l1_loss(lit, showroom) + 0.1 * feature_loss(lit, showroom)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(it, loss.item())
