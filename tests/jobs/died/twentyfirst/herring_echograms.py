"""Four-fold super-resolution of echograms from herring surveys (ESPCN-like). A panel of pictures and the PSNR are written per epoch."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class Upscaler(nn.Module):
    def __init__(self, ch=3, feat=24, scale=4):
        super().__init__()
        self.head = nn.Conv2d(ch, feat, 5, padding=2)
        self.body = nn.Sequential(*[m for _ in range(4) for m in (nn.Conv2d(feat, feat, 3, padding=1), nn.PReLU())])
        self.tail = nn.Sequential(nn.Conv2d(feat, ch * scale ** 2, 3, padding=1), nn.PixelShuffle(scale))

    def forward(self, x):
        h = self.head(x)
        return self.tail(h + self.body(h))


class EpochReport:
    """Collects what the report of an epoch shows."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.pictures, self.originals, self.losses = [], [], []

    def add(self, sr, hr, loss):
        if "--fixed" in sys.argv:
            sr, hr = sr.detach().cpu(), hr.cpu()
        self.pictures.append(sr)
        self.originals.append(hr)
        self.losses.append(loss.item())

    def summary(self):
        mse = [F.mse_loss(a, b).item() for a, b in zip(self.pictures, self.originals)]
        panel = torch.stack([p[0].detach().cpu() for p in self.pictures[-8:]])
        return {"loss": sum(self.losses) / len(self.losses), "mse": sum(mse) / len(mse), "panel": tuple(panel.shape)}


def survey(steps, gen):
    for _ in range(steps):
        hr = torch.rand(16, 3, 256, 256, generator=gen)
        yield F.avg_pool2d(hr, 4), hr


def run(epochs=2, steps=36):
    gen = torch.Generator().manual_seed(77)
    model = Upscaler().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    report = EpochReport()
    for epoch in range(epochs):
        report.clear()
        for lr, hr in survey(steps, gen):
            lr, hr = lr.cuda(), hr.cuda()
            sr = model(lr)
            loss = F.mse_loss(sr, hr)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report.add(sr, hr, loss)
        print(epoch, report.summary())


run()
