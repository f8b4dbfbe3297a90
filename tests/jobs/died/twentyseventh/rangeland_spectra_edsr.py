"""Sharpens 31-band hyperspectral scenes of rangeland (x2) and reports ERGAS over the validation scenes."""
import sys

import torch
import torch.nn as nn
from torchmetrics import MeanMetric
from torchmetrics.image import ErrorRelativeGlobalDimensionlessSynthesis as ERGAS

FIXED = "--fixed" in sys.argv
BANDS = 31


class ResBlock(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(n, n, 3, padding=1), nn.ReLU(True), nn.Conv2d(n, n, 3, padding=1))

    def forward(self, x):
        return x + 0.1 * self.body(x)


class EDSR(nn.Module):
    def __init__(self, n=48, blocks=4):
        super().__init__()
        self.head = nn.Conv2d(BANDS, n, 3, padding=1)
        self.body = nn.Sequential(*[ResBlock(n) for _ in range(blocks)])
        self.tail = nn.Sequential(nn.Conv2d(n, 4 * n, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(n, BANDS, 3, padding=1))

    def forward(self, x):
        h = self.head(x)
        return self.tail(h + self.body(h)).sigmoid()


def scenes(count, batch, side):
    gen = torch.Generator().manual_seed(count)
    sharp = torch.rand(batch, BANDS, side, side, generator=gen)
    for i in range(count):
        hr = sharp.roll(i, 2)
        yield nn.functional.avg_pool2d(hr, 2), hr


class Validation:
    def __init__(self):
        options = {"compute_on_cpu": True} if FIXED else {}
        self.ergas = ERGAS(ratio=2, **options).to("cuda")
        self.loss = MeanMetric().to("cuda")

    @torch.no_grad()
    def __call__(self, model):
        model.eval()
        self.ergas.reset(), self.loss.reset()
        for lr, hr in scenes(14, 16, 128):
            lr, hr = lr.cuda(), hr.cuda()
            sr = model(lr)
            self.loss.update(nn.functional.l1_loss(sr, hr))
            self.ergas.update(sr, hr)
        model.train()
        return float(self.loss.compute()), float(self.ergas.compute())


model = EDSR().cuda()
optim = torch.optim.Adam(model.parameters(), lr=1e-4)
validation = Validation()
for epoch in range(1):
    for lr, hr in scenes(8, 4, 96):
        loss = nn.functional.l1_loss(model(lr.cuda()), hr.cuda())
        optim.zero_grad()
        loss.backward()
        optim.step()
    print("epoch", epoch, "l1/ergas", validation(model))
