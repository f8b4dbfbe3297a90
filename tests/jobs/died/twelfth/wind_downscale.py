"""Downscales wind fields from a coarse weather model to a fine grid with an EDSR-like network; prints the forecasts' spread after each epoch."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
BATCH, STEPS, COARSE, SCALE = 8, 24, 48, 4


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + 0.1 * self.second(torch.relu(self.first(x)))


class Downscaler(nn.Module):
    """Two components of wind at eight levels in, the same on the fine grid out."""

    def __init__(self, fields=16, width=48, depth=8):
        super().__init__()
        self.head = nn.Conv2d(fields, width, 3, padding=1)
        self.body = nn.Sequential(*[Residual(width) for _ in range(depth)])
        self.tail = nn.Sequential(nn.Conv2d(width, fields * SCALE ** 2, 3, padding=1), nn.PixelShuffle(SCALE))

    def forward(self, x):
        x = self.head(x)
        return self.tail(x + self.body(x))


def samples(generator):
    for _ in range(STEPS):
        coarse = torch.rand(BATCH, 16, COARSE, COARSE, generator=generator)
        yield coarse, nn.functional.interpolate(coarse, scale_factor=SCALE)


def spread(fields):
    return torch.stack([f.float().std() for f in fields]).mean().item()


def train():
    model = Downscaler().to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    generator = torch.Generator().manual_seed(7)
    for epoch in range(2):
        forecasts, losses = [], []
        for coarse, fine in samples(generator):
            coarse, fine = coarse.to("cuda"), fine.to("cuda")
            out = model(coarse)
            loss = nn.functional.l1_loss(out, fine)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            forecasts.append(out.detach().std() if FIXED else out)
        print("epoch", epoch, "loss", sum(losses) / len(losses), "spread", torch.stack(forecasts).mean().item() if FIXED else spread(forecasts))


train()
