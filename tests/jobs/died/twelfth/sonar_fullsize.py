"""Segments the sea floor in side-scan sonar: trains on crops of 192 pixels, and validates on whole tracks with a small encoder-decoder."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
CROP, TRACK, CLASSES, TILE = 192, (1024, 2048), 6, 512


def double(before, width):
    return nn.Sequential(nn.Conv2d(before, width, 3, padding=1), nn.InstanceNorm2d(width), nn.LeakyReLU(0.01),
                         nn.Conv2d(width, width, 3, padding=1), nn.InstanceNorm2d(width), nn.LeakyReLU(0.01))


class SonarNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.down = nn.ModuleList([double(1, width), double(width, 2 * width), double(2 * width, 4 * width)])
        self.up = nn.ModuleList([double(6 * width, 2 * width), double(3 * width, width)])
        self.out = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        skips = []
        for n, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if n else x)
            skips.append(x)
        for layer, skip in zip(self.up, skips[1::-1]):
            x = layer(torch.cat([F.interpolate(x, scale_factor=2), skip], 1))
        return self.out(x)


def train(model, optimizer, steps):
    model.train()
    for _ in range(steps):
        image, floor = torch.rand(6, 1, CROP, CROP).cuda(), torch.randint(0, CLASSES, (6, CROP, CROP)).cuda()
        loss = F.cross_entropy(model(image), floor)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def predict(model, track):
    if not FIXED:
        return model(track.cuda()).argmax(1).cpu()
    rows = []
    for strip in track.split(TILE, 2):
        rows.append(torch.cat([model(tile.cuda()).argmax(1).cpu() for tile in strip.split(TILE, 3)], 2))
    return torch.cat(rows, 1)


def validate(model, tracks=2):
    model.eval()
    same = 0
    for _ in range(tracks):
        truth = torch.randint(0, CLASSES, (1, *TRACK))
        same += (predict(model, torch.zeros(1, 1, *TRACK)) == truth).float().mean().item()
    return same / tracks


model = SonarNet().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    print("epoch", epoch, "loss", train(model, optimizer, 6), "accuracy", validate(model))
