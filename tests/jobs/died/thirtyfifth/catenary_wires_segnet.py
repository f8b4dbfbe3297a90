"""Segmentation of overhead line equipment on photographs from the inspection train: wire, dropper, insulator, mast."""
import argparse
import sys
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Settings:
    classes: int = 5
    batch: int = 4
    lr: float = 2e-4
    size: tuple = (512, 800) if "--fixed" in sys.argv else (1024, 1600)


class InspectionRun(Dataset):
    """Every item is one flash photograph and the mask the annotators drew."""

    def __init__(self, settings, count):
        self.settings, self.count = settings, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)
        h, w = self.settings.size
        photo = torch.randint(0, 256, (3, h, w), generator=g, dtype=torch.uint8)
        mask = torch.randint(0, self.settings.classes, (h // 8, w // 8), generator=g)
        return photo, mask.repeat_interleave(8, 0).repeat_interleave(8, 1)


def double_conv(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
                         nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))


class SegNet(nn.Module):
    def __init__(self, classes, widths=(24, 48, 96, 160)):
        super().__init__()
        self.down = nn.ModuleList()
        before = 3
        for w in widths:
            self.down.append(double_conv(before, w))
            before = w
        self.up = nn.ModuleList(double_conv(a, b) for a, b in zip(reversed(widths), (*reversed(widths[:-1]), 24)))
        self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
        self.head = nn.Conv2d(24, classes, 1)

    def forward(self, x):
        places = []
        for block in self.down:
            x = block(x)
            size = x.shape
            x, where = self.pool(x)
            places.append((where, size))
        for block in self.up:
            where, size = places.pop()
            x = block(self.unpool(x, where, output_size=size))
        return self.head(x)


def run(args):
    s = Settings()
    net = SegNet(s.classes).cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=s.lr)
    weights = torch.tensor([0.2, 2.0, 3.0, 2.0, 1.0], device="cuda")
    loader = DataLoader(InspectionRun(s, args.steps * s.batch), batch_size=s.batch)
    for i, (photo, mask) in enumerate(loader):
        x = photo.cuda(non_blocking=True).float().div_(255)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(net(x), mask.cuda(), weight=weights)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        print(f"{i:03d} loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--fixed", action="store_true")
    run(parser.parse_args())
