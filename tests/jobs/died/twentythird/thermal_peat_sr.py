"""Super-resolution (x2) of thermal images of smouldering peat; SSIM and PSNR of the training patches are averaged for the log."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class AverageMeter:
    """The meter of the ImageNet example."""

    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return f"{self.name} {float(self.val):.3f} ({float(self.avg):.3f})"


def window(channels, size=11, sigma=1.5):
    x = torch.arange(size) - size // 2
    g = torch.exp(-x ** 2 / (2 * sigma ** 2))
    g = g / g.sum()
    return (g[:, None] * g[None]).expand(channels, 1, size, size).contiguous()


def ssim(a, b, kernel):
    c = a.shape[1]
    blur = lambda t: F.conv2d(t, kernel, padding=kernel.shape[-1] // 2, groups=c)
    ma, mb = blur(a), blur(b)
    va, vb, cov = blur(a * a) - ma ** 2, blur(b * b) - mb ** 2, blur(a * b) - ma * mb
    return (((2 * ma * mb + 1e-4) * (2 * cov + 9e-4)) / ((ma ** 2 + mb ** 2 + 1e-4) * (va + vb + 9e-4))).mean()


def psnr(a, b):
    return -10 * torch.log10(F.mse_loss(a, b))


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return x + 0.1 * self.b(F.relu(self.a(x)))


class Upscaler(nn.Module):
    def __init__(self, c=24, blocks=5):
        super().__init__()
        self.first = nn.Conv2d(2, c, 3, padding=1)
        self.body = nn.Sequential(*[Residual(c) for _ in range(blocks)])
        self.last = nn.Sequential(nn.Conv2d(c, 8, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        x = self.first(x)
        return self.last(x + self.body(x))


net, kernel = Upscaler().cuda(), window(2).cuda()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.9, 0.99))
gen = torch.Generator().manual_seed(2)
meters = {"psnr": AverageMeter("psnr"), "ssim": AverageMeter("ssim")}
for epoch in range(1):
    for m in meters.values():
        m.reset()
    for it in range(18):
        high = torch.rand(16, 2, 384, 384, generator=gen)
        low = F.avg_pool2d(high, 2)
        high, low = high.cuda(), low.cuda()
        out = net(low)
        loss = F.l1_loss(out, high)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown = out.detach() if FIXED else out
        meters["psnr"].update(psnr(shown, high), len(high))
        meters["ssim"].update(ssim(shown, high, kernel), len(high))
        if it % 6 == 0:
            print(it, f"l1 {loss.item():.4f}", *meters.values())
