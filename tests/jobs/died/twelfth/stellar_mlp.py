"""Estimates temperature, gravity and metallicity of stars from spectra with a wide residual MLP."""
import sys

import torch
import torch.nn as nn

PIXELS, WIDTH, DEPTH, BATCH = 7000, 6144, 5, 512


class Wide(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + torch.nn.functional.silu(self.linear(self.norm(x)))


class Spectra(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(PIXELS, WIDTH)
        self.layers = nn.Sequential(*[Wide(WIDTH) for _ in range(DEPTH)])
        self.heads = nn.ModuleDict({k: nn.Linear(WIDTH, 1) for k in ("teff", "logg", "feh")})

    def forward(self, flux):
        h = self.layers(self.inp(flux))
        return {k: head(h).squeeze(-1) for k, head in self.heads.items()}


def make_optimizer(parameters, fixed):
    if fixed:
        return torch.optim.Adafactor(parameters, lr=1e-3, foreach=False)
    return torch.optim.AdamW(parameters, lr=1e-4, weight_decay=1e-2, foreach=False)


def loader(n):
    generator = torch.Generator().manual_seed(3)
    for _ in range(n):
        flux = torch.rand(BATCH, PIXELS, generator=generator)
        yield flux.cuda(), {k: torch.rand(BATCH, generator=generator).cuda() for k in ("teff", "logg", "feh")}


def loss_of(out, truth):
    weights = {"teff": 1.0, "logg": 0.5, "feh": 2.0}
    return sum(w * nn.functional.huber_loss(out[k], truth[k]) for k, w in weights.items())


def main():
    with torch.device("cuda"):
        model = Spectra()
    print("parameters: %.0f M" % (sum(p.numel() for p in model.parameters()) / 1e6))
    optimizer = make_optimizer(model.parameters(), "--fixed" in sys.argv)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 100))
    for step, (flux, truth) in enumerate(loader(6)):
        loss = loss_of(model(flux), truth)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        print("step %d: %g" % (step, loss.item()))


main()
