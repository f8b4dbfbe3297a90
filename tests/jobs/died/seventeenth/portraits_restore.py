"""Cleans scans of old portraits: a residual network, trained by L1 and by the distance in the features of a VGG."""
import sys

import torch
from torch import nn
from torch.nn import functional as F


class VGGFeatures(nn.Module):
    """The first layers of a VGG16, up to relu3_3; our weights come from the archive's own classifier."""

    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for v in (64, 64, "M", 128, 128, "M", 256, 256, 256):
            if v == "M":
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(channels, v, 3, padding=1), nn.ReLU()]
                channels = v
        self.layers = nn.Sequential(*layers)
        self.taps = {3, 8, 15}
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def forward(self, image):
        x, features = (image - self.mean) / self.std, []
        for index, layer in enumerate(self.layers):
            x = layer(x)
            if index in self.taps:
                features.append(x)
        return features


class PerceptualLoss(nn.Module):
    def __init__(self, weights=(1.0, 0.5, 0.25)):
        super().__init__()
        self.vgg, self.weights = VGGFeatures().eval(), weights
        if "--fixed" in sys.argv:
            self.vgg.requires_grad_(False)

    def forward(self, restored, clean):
        pairs = zip(self.weights, self.vgg(restored), self.vgg(clean))
        return sum(w * F.l1_loss(a, b) for w, a, b in pairs)


class Restorer(nn.Module):
    def __init__(self, width=24, blocks=3):
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
                                    for _ in range(blocks))
        self.tail = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x):
        y = self.head(x)
        for block in self.blocks:
            y = y + block(y)
        return x + self.tail(y)


def damaged(clean):
    scan = clean.clone()
    scan[:, :, ::17] = 1.0
    return (scan + 0.05).clamp(0, 1)


def main():
    torch.manual_seed(2)
    net, perceptual = Restorer().cuda(), PerceptualLoss().cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-4)
    for step in range(6):
        clean = torch.rand(6, 3, 256, 256)
        scan, clean = damaged(clean).cuda(), clean.cuda()
        restored = net(scan)
        loss = F.l1_loss(restored, clean) + 0.1 * perceptual(restored, clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())


main()
