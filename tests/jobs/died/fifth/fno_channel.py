"""Learns the flow in a channel with a Fourier neural operator; the validation compares predicted fields with those of a solver."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
GRID, CHANNELS = 128, 4


class Spectral(nn.Module):
    """Multiplies the low frequencies by weights; the transform is written as two products with cosine bases."""

    def __init__(self, width, modes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width, modes, modes) / width)
        k = torch.arange(modes)[:, None] * (torch.arange(GRID) + 0.5)[None]
        self.register_buffer("basis", torch.cos(torch.pi * k / GRID) * (2 / GRID) ** 0.5)

    def forward(self, x):
        low = torch.einsum("bchw,mh,nw->bcmn", x, self.basis, self.basis)
        low = torch.einsum("bcmn,cdmn->bdmn", low, self.weight)
        return torch.einsum("bdmn,mh,nw->bdhw", low, self.basis, self.basis)


class Operator(nn.Module):
    def __init__(self, width=32, modes=16, layers=4):
        super().__init__()
        self.lift, self.project = nn.Conv2d(CHANNELS, width, 1), nn.Conv2d(width, CHANNELS, 1)
        self.spectral = nn.ModuleList(Spectral(width, modes) for _ in range(layers))
        self.local = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))

    def forward(self, x):
        x = self.lift(x)
        for spectral, local in zip(self.spectral, self.local):
            x = F.gelu(spectral(x) + local(x))
        return self.project(x)


def relative(prediction, field):
    return ((prediction - field).flatten(1).norm(dim=1) / field.flatten(1).norm(dim=1)).mean()


def fields(n, batch):
    for _ in range(n):
        yield torch.zeros(batch, CHANNELS, GRID, GRID), torch.ones(batch, CHANNELS, GRID, GRID)


@torch.no_grad()
def validate(model):
    model.eval()
    predictions, truth = [], []
    for before, after in fields(60, 16):
        prediction = model(before.cuda())
        if FIXED:
            prediction, after = prediction.cpu(), after
        else:
            after = after.cuda()
        predictions.append(prediction)
        truth.append(after)
    worst = max(relative(p, a).item() for p, a in zip(predictions, truth))
    return worst, predictions[0][0, 0].cpu()


model = Operator().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
for epoch in range(2):
    model.train()
    for before, after in fields(10, 8):
        loss = relative(model(before.cuda()), after.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    worst, picture = validate(model)
    print("epoch", epoch, "loss", loss.item(), "worst", worst, tuple(picture.shape))
