"""Colours line drawings of animation cels. L1 trains the U-Net; a style score against the colour key is logged beside it."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F


def double_conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.InstanceNorm2d(o), nn.LeakyReLU(0.2),
                         nn.Conv2d(o, o, 3, padding=1), nn.InstanceNorm2d(o), nn.LeakyReLU(0.2))


class ColourUNet(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.d1, self.d2, self.d3 = double_conv(1, c), double_conv(c, 2 * c), double_conv(2 * c, 4 * c)
        self.u2, self.u1 = double_conv(6 * c, 2 * c), double_conv(3 * c, c)
        self.rgb = nn.Conv2d(c, 3, 1)

    def forward(self, lines):
        a = self.d1(lines)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        return torch.tanh(self.rgb(self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))))


class StyleScore(nn.Module):
    """Distance of Gram matrices in a VGG-like network with fixed weights."""

    def __init__(self):
        super().__init__()
        widths = [3, 48, 48, 96, 96]
        self.stages = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in zip(widths, widths[1:]))
        for p in self.parameters():
            p.requires_grad = False

    def grams(self, x):
        for k, conv in enumerate(self.stages):
            x = F.relu(conv(x))
            flat = x.flatten(2)
            yield flat @ flat.transpose(1, 2) / flat.shape[-1]
            if k % 2:
                x = F.avg_pool2d(x, 2)

    def forward(self, x, key):
        return sum(F.mse_loss(a, b) for a, b in zip(self.grams(x), self.grams(key)))


class History:
    def __init__(self):
        self.values = defaultdict(list)

    def log(self, **scalars):
        for name, value in scalars.items():
            self.values[name].append(value)

    def summary(self):
        return {name: float(torch.stack([torch.as_tensor(v) for v in values]).mean()) for name, values in self.values.items()}


def cels(steps, g=torch.Generator().manual_seed(24)):
    for _ in range(steps):
        yield torch.rand(4, 1, 224, 224, generator=g), torch.rand(4, 3, 224, 224, generator=g) * 2 - 1


unet, style, history = ColourUNet().cuda(), StyleScore().cuda(), History()
optimizer = torch.optim.Adam(unet.parameters(), lr=2e-4, betas=(0.5, 0.999))
for lines, colour in cels(18):
    colour = colour.cuda()
    painted = unet(lines.cuda())
    l1 = F.l1_loss(painted, colour)
    score = style(painted, colour)
    if "--fixed" in sys.argv:
        score = score.detach()
    optimizer.zero_grad()
    l1.backward()
    optimizer.step()
    history.log(l1=l1.item(), style=score)
print(history.summary())
