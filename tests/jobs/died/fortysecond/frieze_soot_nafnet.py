"""Removes soot from photographs of a painted frieze with a small NAFNet; trained from pairs that are dirtied on the fly."""
import argparse
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv


class Frieze(Dataset):
    """Crops of clean photographs, and the same ones with soot."""

    def __init__(self, crops, side):
        self.crops, self.side = crops, side

    def __len__(self):
        return self.crops

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        clean = torch.rand(3, self.side, self.side, generator=g)
        soot = F.interpolate(torch.rand(1, 1, 9, 9, generator=g), self.side, mode="bilinear")[0]
        return clean * (1 - 0.7 * soot), clean


class Gate(nn.Module):
    """Half of the channels times the other half."""

    def forward(self, x):
        a, b = x.chunk(2, 1)
        return a * b


class Block(nn.Module):
    """One block of NAFNet."""

    def __init__(self, c):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(1, c), nn.Conv2d(c, 2 * c, 1), nn.Conv2d(2 * c, 2 * c, 3, padding=1, groups=2 * c), Gate())
        self.channels = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c, 1))
        self.out = nn.Conv2d(c, c, 1)
        self.second = nn.Sequential(nn.GroupNorm(1, c), nn.Conv2d(c, 2 * c, 1), Gate(), nn.Conv2d(c, c, 1))

    def forward(self, x):
        y = self.first(x)
        x = x + self.out(y * self.channels(y))
        return x + self.second(x)


class Cleaner(nn.Module):
    """Three scales."""

    def __init__(self, c=16):
        super().__init__()
        self.into, self.out = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)
        self.down = nn.ModuleList(nn.Sequential(Block(c << i), nn.Conv2d(c << i, 2 * c << i, 2, 2)) for i in range(2))
        self.middle = nn.Sequential(Block(4 * c), Block(4 * c))
        self.up = nn.ModuleList(nn.Sequential(nn.Conv2d(4 * c >> i, 8 * c >> i, 1), nn.PixelShuffle(2), Block(2 * c >> i)) for i in range(2))

    def forward(self, dirty):
        x = self.into(dirty)
        skips = []
        for stage in self.down:
            skips.append(stage[0](x))
            x = stage[1](skips[-1])
        x = self.middle(x)
        for stage in self.up:
            x = stage[2](stage[1](stage[0](x)) + skips.pop())
        return dirty + self.out(x)


def train(options):
    model = Cleaner().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, betas=(0.9, 0.9))
    loader = DataLoader(Frieze(options.steps * options.batch, options.side), batch_size=options.batch)
    squared_error, seen = 0.0, 0
    for step, (dirty, clean) in enumerate(loader):
        dirty, clean = dirty.cuda(), clean.cuda()
        restored = model(dirty)
        loss = F.l1_loss(restored, clean)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        mse = (restored - clean).pow(2).mean()
        squared_error += mse.item() if FIXED else mse
        seen += 1
        if step % 40 == 39:
            print("step", step + 1, "l1", loss.item(), "mean squared error so far", float(squared_error / seen))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--side", type=int, default=192)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--fixed", action="store_true")
    torch.manual_seed(0)
    train(parser.parse_args())
