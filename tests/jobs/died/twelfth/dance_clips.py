"""Recognises dances in short clips with an R(2+1)D network; the loop is a closure over the optimizer."""
import contextlib
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
FRAMES, SIZE, BATCH, DANCES = 16, 96, 8, 25


def factored(before, width, stride=1):
    between = width * before * 27 // (before * 9 + 3 * width)
    return nn.Sequential(nn.Conv3d(before, between, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False), nn.BatchNorm3d(between), nn.ReLU(),
                         nn.Conv3d(between, width, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False), nn.BatchNorm3d(width))


class Residual(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.first, self.second = factored(before, width, stride), factored(width, width)
        self.short = nn.Conv3d(before, width, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        return (self.second(self.first(x).relu()) + self.short(x)).relu()


def network():
    return nn.Sequential(nn.Conv3d(3, 32, (3, 5, 5), (1, 2, 2), (1, 2, 2), bias=False), nn.BatchNorm3d(32), nn.ReLU(),
                         Residual(32, 32, 1), Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 64, 1), Residual(64, 128, 2),
                         Residual(128, 128, 1), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(128, DANCES))


def make_step(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss()

    def step(clips, dances):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16) if FIXED else contextlib.nullcontext():
            out = model(clips)
        loss = criterion(out.float(), dances)
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


def clips(n):
    for _ in range(n):
        yield torch.zeros(BATCH, 3, FRAMES, SIZE, SIZE, device="cuda"), torch.randint(0, DANCES, (BATCH,), device="cuda")


step = make_step(network().cuda())
for n, (x, y) in enumerate(clips(4)):
    print("batch", n, "loss", step(x, y))
