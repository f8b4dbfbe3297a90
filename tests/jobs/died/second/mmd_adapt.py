"""Domain adaptation of a classifier of satellite tiles: cross entropy on the source, maximum mean discrepancy to the target.

After https://github.com/facebookresearch/PointContrast/issues/11 and https://github.com/SeldonIO/alibi-detect/issues/213
"""
import argparse

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, features=256):
        super().__init__()
        chans = [3, 32, 64, 128, 256]
        self.conv = nn.Sequential(*[nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in zip(chans, chans[1:])])
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(256 * 16, 2048), nn.ReLU(), nn.Linear(2048, features))

    def forward(self, x):
        return self.fc(self.conv(x))


class MMD(nn.Module):
    """A sum of Gaussian kernels."""

    def __init__(self, fixed, kernels=3):
        super().__init__()
        self.fixed, self.kernels = fixed, kernels

    def distances(self, x):
        if self.fixed:
            square = (x * x).sum(1)
            return square[:, None] + square[None] - 2 * x @ x.t()
        return ((x.unsqueeze(0) - x.unsqueeze(1)) ** 2).sum(2)

    def forward(self, source, target):
        n = len(source)
        d = self.distances(torch.cat([source, target]))
        width = d.detach().mean() / 2 ** (self.kernels // 2)
        k = sum(torch.exp(-d / (width * 2 ** i)) for i in range(self.kernels))
        return k[:n, :n].mean() + k[n:, n:].mean() - 2 * k[:n, n:].mean()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=512)
    ap.add_argument("--fixed", action="store_true")
    opt = ap.parse_args()
    encoder, head, mmd = Encoder().cuda(), nn.Linear(256, 45).cuda(), MMD(opt.fixed)
    sgd = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.01, momentum=0.9, weight_decay=5e-4)
    for it in range(8):
        tiles, labels = torch.rand(opt.batch, 3, 64, 64).cuda(), torch.randint(45, (opt.batch,)).cuda()
        others = torch.rand(opt.batch, 3, 64, 64).cuda()
        f, g = encoder(tiles), encoder(others)
        loss = nn.functional.cross_entropy(head(f), labels) + 0.5 * mmd(f, g)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        print("iteration", it, "loss", loss.item())
