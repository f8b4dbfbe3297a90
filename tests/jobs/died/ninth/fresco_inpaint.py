"""Fills gaps in photographs of frescoes with partial convolutions; a VGG-like network compares the result with the original."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


class PartialConv(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride, 1)
        self.stride = stride

    def forward(self, x, mask):
        with torch.no_grad():
            seen = F.avg_pool2d(mask, 3, self.stride, 1)
            scale = 1 / seen.clamp(min=1 / 9)
        return F.relu(self.conv(x) * scale), (seen > 0).float()


class Inpainter(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.down = nn.ModuleList([PartialConv(3, w), PartialConv(w, 2 * w, 2), PartialConv(2 * w, 4 * w, 2)])
        self.up = nn.ModuleList([nn.Conv2d(6 * w, 2 * w, 3, 1, 1), nn.Conv2d(3 * w, w, 3, 1, 1)])
        self.out = nn.Conv2d(w, 3, 1)

    def forward(self, image, mask):
        skips, x = [], image * mask
        for layer in self.down:
            x, mask = layer(x, mask)
            skips.append(x)
        for layer, skip in zip(self.up, skips[-2::-1]):
            x = F.relu(layer(torch.cat([F.interpolate(x, scale_factor=2), skip], 1)))
        return torch.sigmoid(self.out(x))


class Vgg(nn.Module):
    """The first three stages; weights would come from torchvision."""

    def __init__(self):
        super().__init__()
        stages, cin = [], 3
        for cout, n in (64, 2), (128, 2), (256, 3):
            layers = []
            for _ in range(n):
                layers += [nn.Conv2d(cin, cout, 3, 1, 1), nn.ReLU()]
                cin = cout
            stages.append(nn.Sequential(*layers, nn.MaxPool2d(2)))
        self.stages = nn.ModuleList(stages)

    def forward(self, x):
        out = []
        for stage in self.stages:
            x = stage(x)
            out.append(x)
        return out


def gram(f):
    f = f.flatten(2)
    return f @ f.transpose(1, 2) / f.numel()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--batch", type=int, default=6)
    arguments = parser.parse_args()
    net, vgg = Inpainter().cuda(), Vgg().cuda().eval()
    if arguments.fixed:
        vgg.requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-4)
    for step in range(4):
        original = torch.rand(arguments.batch, 3, 192, 192).cuda()
        mask = (torch.rand(arguments.batch, 1, 192, 192) > 0.3).float().cuda()
        filled = net(original, mask)
        loss = F.l1_loss(filled * mask, original * mask) + 6 * F.l1_loss(filled * (1 - mask), original * (1 - mask))
        for a, b in zip(vgg(filled), vgg(original)):
            loss = loss + 0.05 * F.l1_loss(a, b) + 120 * F.l1_loss(gram(a), gram(b))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", float(loss))


main()
