"""Four times finer photographs of Roman mosaic floors: an EDSR, trained with L1 and with the distance of VGG features."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

fixed = "--fixed" in sys.argv


class Residual(nn.Module):
    """Two convolutions and what came in."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(True), nn.Conv2d(width, width, 3, 1, 1))

    def forward(self, x):
        return x + 0.1 * self.body(x)


class Upscaler(nn.Module):
    """EDSR: all work at the low resolution, and a shuffle of pixels at the end."""

    def __init__(self, width=64, depth=10):
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, 1, 1)
        self.body = nn.Sequential(*[Residual(width) for _ in range(depth)])
        self.tail = nn.Sequential(nn.Conv2d(width, 48, 3, 1, 1), nn.PixelShuffle(4))

    def forward(self, x):
        x = self.head(x)
        return self.tail(x + self.body(x))


class VGGFeatures(nn.Module):
    """The first 10 convolutions of a VGG-19."""

    def __init__(self):
        super().__init__()
        layers, into = [], 3
        for out in (64, 64, "M", 128, 128, "M", 256, 256, 256, 256, "M", 512, 512):
            layers += [nn.MaxPool2d(2)] if out == "M" else [nn.Conv2d(into, out, 3, 1, 1), nn.ReLU()]
            into = into if out == "M" else out
        self.features = nn.Sequential(*layers)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def forward(self, x):
        return self.features((x - self.mean) / self.std)


class PerceptualLoss(nn.Module):
    """The features shall be near to those of the true picture, and far from those of a bicubic one."""

    def __init__(self):
        super().__init__()
        self.vgg = VGGFeatures().eval()
        if fixed:
            self.vgg.requires_grad_(False)

    def forward(self, made, true, blurred):
        wanted, unwanted = self.vgg(true), self.vgg(blurred)
        ours = self.vgg(made)
        return F.l1_loss(ours, wanted) / (F.l1_loss(ours, unwanted) + 1e-3)


torch.manual_seed(1)
net, perceptual = Upscaler().cuda(), PerceptualLoss().cuda()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-4, betas=(0.9, 0.99))
generator = torch.Generator().manual_seed(8)
for step in range(8):
    true = torch.rand(8, 3, 256, 256, generator=generator)
    coarse = F.avg_pool2d(true, 4).cuda()
    true, blurred = true.cuda(), F.interpolate(coarse, scale_factor=4, mode="bicubic")
    made = net(coarse)
    pixel, feature = F.l1_loss(made, true), perceptual(made, true, blurred)
    optimizer.zero_grad()
    (pixel + 0.05 * feature).backward()
    optimizer.step()
    print(f"{step}: pixel {pixel.item():.4f} feature {feature.item():.4f}")
