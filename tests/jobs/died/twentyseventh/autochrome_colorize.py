"""Gives scanned glass plates the colours of autochromes; pixel loss plus a loss on deep features."""
import sys

import torch
from torch import nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class Colorizer(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.down = nn.Conv2d(1, c, 4, 4)
        self.body = nn.Sequential(nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(), nn.Conv2d(2 * c, 2 * c, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * c, 3, 4, 4)

    def forward(self, grey):
        return torch.sigmoid(self.up(self.body(self.down(grey))))


class DeepFeatures(nn.Module):
    """The first blocks of a VGG (weights would come from a file)."""

    def __init__(self, plan=(64, 64, "M", 128, 128, "M", 256, 256, 256)):
        super().__init__()
        self.layers, c = nn.ModuleList(), 3
        for item in plan:
            self.layers.append(nn.MaxPool2d(2) if item == "M" else nn.Conv2d(c, item, 3, padding=1))
            c = c if item == "M" else item

    def forward(self, x):
        taken = []
        for layer in self.layers:
            if isinstance(layer, nn.MaxPool2d):
                taken.append(x)
                x = layer(x)
            else:
                x = F.relu(layer(x))
        return taken + [x]


class ColourLoss(nn.Module):
    def __init__(self, weight=0.04):
        super().__init__()
        self.features = DeepFeatures().eval()
        self.weight = weight
        if FIXED:
            self.features.requires_grad_(False)

    def forward(self, made, real):
        deep = sum(F.l1_loss(a, b) for a, b in zip(self.features(made), self.features(real)))
        return F.l1_loss(made, real) + self.weight * deep


def plates(steps, batch=8, side=256):
    colour = torch.rand(batch, 3, side, side)
    for i in range(steps):
        yield colour.roll(i, 0).mean(1, keepdim=True), colour.roll(i, 0)


def main():
    net, criterion = Colorizer().cuda(), ColourLoss().cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-4)
    for step, (grey, colour) in enumerate(plates(8)):
        loss = criterion(net(grey.cuda()), colour.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", round(loss.item(), 4))


main()
