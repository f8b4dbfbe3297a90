"""Drone imagery of orchards: sharpens 32 hyperspectral bands with the panchromatic camera."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchmetrics import MetricCollection
from torchmetrics.image import ErrorRelativeGlobalDimensionlessSynthesis, PeakSignalNoiseRatio, SpectralAngleMapper

fixed = "--fixed" in sys.argv
BANDS, SIZE, device = 32, 256, "cuda"


class Sharpener(nn.Module):
    def __init__(self, width=64, depth=4):
        super().__init__()
        self.inp = nn.Conv2d(BANDS + 1, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.out = nn.Conv2d(width, BANDS, 3, padding=1)

    def forward(self, low, pan):
        up = F.interpolate(low, scale_factor=4, mode="bicubic")
        x = self.inp(torch.cat([up, pan], 1))
        for conv in self.body:
            x = x + F.gelu(conv(x))
        return up + self.out(x)


def scenes(n, batch, seed):
    gen = torch.Generator().manual_seed(seed)
    for _ in range(n):
        high = torch.rand(batch, BANDS, SIZE, SIZE, generator=gen)
        yield F.avg_pool2d(high, 4), high.mean(1, keepdim=True), high


def validate(model, metrics, n=18):
    model.eval()
    metrics.reset()
    running = None
    with torch.inference_mode():
        for low, pan, high in scenes(n, 4, 7):
            fused = model(low.to(device), pan.to(device)).clamp(0, 1)
            if fixed:
                now = {k: v.item() for k, v in metrics(fused, high.to(device)).items()}
                running = now if running is None else {k: running[k] + now[k] for k in now}
                metrics.reset()
            else:
                metrics.update(fused, high.to(device))
    model.train()
    if fixed:
        return {k: v / n for k, v in running.items()}
    return {k: v.item() for k, v in metrics.compute().items()}


def main():
    model = Sharpener().to(device)
    metrics = MetricCollection({
        "psnr": PeakSignalNoiseRatio(data_range=1.0),
        "sam": SpectralAngleMapper(),
        "ergas": ErrorRelativeGlobalDimensionlessSynthesis(ratio=0.25),
    }).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=4e-4)
    for epoch in range(2):
        for low, pan, high in scenes(3, 2, epoch):
            loss = F.l1_loss(model(low.to(device), pan.to(device)), high.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch}: loss {loss.item():.4f} {validate(model, metrics)}")


main()
