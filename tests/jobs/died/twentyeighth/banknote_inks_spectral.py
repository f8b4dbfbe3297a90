# Reconstruct 31 spectral bands of banknote inks from an RGB scan; ERGAS as the validation score.
import sys

import torch
import torch.nn as nn
from torchmetrics.image import ErrorRelativeGlobalDimensionlessSynthesis

device = torch.device("cuda:0")
BANDS = 31


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.PReLU(), nn.Conv2d(ch, ch, 3, padding=1))

    def forward(self, x):
        return x + self.net(x)


class InkNet(nn.Module):
    def __init__(self, ch=48, blocks=3):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, ch, 5, padding=2), *[ResBlock(ch) for _ in range(blocks)], nn.Conv2d(ch, BANDS, 3, padding=1))

    def forward(self, rgb):
        return self.net(rgb).sigmoid()


def scans(count, batch, seed):
    gen = torch.Generator().manual_seed(seed)
    for _ in range(count):
        spectrum = torch.rand(batch, BANDS, 128, 128, generator=gen)
        yield spectrum[:, [4, 14, 24]].contiguous(), spectrum


class Validator:
    def __init__(self):
        self.ergas = ErrorRelativeGlobalDimensionlessSynthesis(compute_on_cpu="--fixed" in sys.argv).to(device)

    @torch.no_grad()
    def run(self, model):
        model.eval()
        for rgb, spectrum in scans(28, 16, seed=99):
            self.ergas.update(model(rgb.to(device)), spectrum.to(device))
        score = self.ergas.compute()
        self.ergas.reset()
        model.train()
        return float(score)


model = InkNet().to(device)
optim = torch.optim.Adam(model.parameters(), lr=2e-4)
validator = Validator()
for step, (rgb, spectrum) in enumerate(scans(10, 4, seed=3)):
    loss = (model(rgb.to(device)) - spectrum.to(device)).abs().mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
    if step % 5 == 0:
        print("step", step, "l1", loss.item())
print("ERGAS", validator.run(model))
