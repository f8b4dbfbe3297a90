"""Denoises infrared cubes of Mars (CRISM-like, 120 bands) with a small spatial-spectral network.

The validation reports the spectral angle for every pixel (median and 90th percentile), hence the metric without reduction.
"""
import argparse

import torch
from torch import nn
from torchmetrics.image import SpectralAngleMapper

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--bands", type=int, default=120)
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()


class SpectralBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.norm = nn.GroupNorm(1, width)
        self.mix = nn.Sequential(nn.Conv2d(width, 2 * width, 1), nn.GELU(), nn.Conv2d(2 * width, width, 1))

    def forward(self, x):
        return x + self.mix(self.norm(self.depthwise(x)))


class Denoiser(nn.Module):
    def __init__(self, bands, width=64, depth=4):
        super().__init__()
        self.into, self.back = nn.Conv2d(bands, width, 1), nn.Conv2d(width, bands, 1)
        self.blocks = nn.Sequential(*[SpectralBlock(width) for _ in range(depth)])

    def forward(self, cube):
        return cube - self.back(self.blocks(self.into(cube)))


def cubes(count, batch, side, seed):
    g = torch.Generator().manual_seed(seed)
    base = torch.rand(batch, args.bands, side, side, generator=g)
    for i in range(count):
        clean = base.roll(7 * i, -1)
        stripes = 0.05 * torch.randn(batch, args.bands, 1, side, generator=g)
        yield clean + stripes, clean


class Validation:
    def __init__(self, device):
        self.angles = SpectralAngleMapper(reduction="none", compute_on_cpu=args.fixed).to(device)
        self.device = device

    @torch.inference_mode()
    def __call__(self, net):
        net.eval()
        for noisy, clean in cubes(24, 8, 96, seed=77):
            self.angles.update(net(noisy.to(self.device)), clean.to(self.device))
        angle = self.angles.compute().flatten().cpu()
        self.angles.reset()
        net.train()
        return angle.median().item(), angle.kthvalue(int(0.9 * len(angle))).values.item()


def main():
    device = torch.device("cuda")
    net = Denoiser(args.bands).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=4e-4)
    validate = Validation(device)
    for epoch in range(args.epochs):
        for noisy, clean in cubes(10, 4, 64, seed=epoch):
            loss = nn.functional.l1_loss(net(noisy.to(device)), clean.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
        median, worst = validate(net)
        print(f"epoch {epoch} l1 {loss.item():.4f} angle {median:.4f} / {worst:.4f} rad")


main()
