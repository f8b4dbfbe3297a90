"""Segments eelgrass meadows on drone photographs of the coast (meadow, sand, rock, water, wrack) with a small DeepLab."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv
CLASSES = 5


class MeadowTiles(Dataset):
    """Orthophoto tiles as they come from the photogrammetry software: 1024 pixels on a side."""

    def __init__(self, tiles=32, crop=None):
        self.tiles, self.crop = tiles, crop

    def __len__(self):
        return self.tiles

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        image = torch.rand(3, 1024, 1024, generator=g)
        mask = torch.randint(0, CLASSES, (1024, 1024), generator=g)
        if self.crop:
            top, left = torch.randint(0, 1024 - self.crop + 1, (2,), generator=g).tolist()
            image = image[:, top:top + self.crop, left:left + self.crop]
            mask = mask[top:top + self.crop, left:left + self.crop]
        return image, mask


def conv_bn(cin, cout, k=3, s=1, d=1):
    return nn.Sequential(nn.Conv2d(cin, cout, k, s, d * (k // 2), d, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class ASPP(nn.Module):
    def __init__(self, cin, cout, rates=(1, 6, 12, 18)):
        super().__init__()
        self.branches = nn.ModuleList(conv_bn(cin, cout, 1 if r == 1 else 3, 1, r) for r in rates)
        self.project = conv_bn(cout * len(rates), cout, 1)

    def forward(self, x):
        return self.project(torch.cat([b(x) for b in self.branches], 1))


class DeepLab(nn.Module):
    def __init__(self):
        super().__init__()
        self.low = nn.Sequential(conv_bn(3, 32, s=2), conv_bn(32, 48), conv_bn(48, 64, s=2), conv_bn(64, 64))
        self.high = nn.Sequential(conv_bn(64, 128, s=2), conv_bn(128, 128), conv_bn(128, 192, s=2), conv_bn(192, 192), conv_bn(192, 192, d=2))
        self.aspp = ASPP(192, 128)
        self.reduce = conv_bn(64, 32, 1)
        self.head = nn.Sequential(conv_bn(160, 96), nn.Conv2d(96, CLASSES, 1))

    def forward(self, image):
        low = self.low(image)
        deep = F.interpolate(self.aspp(self.high(low)), size=low.shape[-2:], mode="bilinear")
        return F.interpolate(self.head(torch.cat([self.reduce(low), deep], 1)), size=image.shape[-2:], mode="bilinear")


def main():
    data = MeadowTiles(crop=448 if FIXED else None)
    loader = DataLoader(data, batch_size=8, shuffle=True, drop_last=True)
    net = DeepLab().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    poly = torch.optim.lr_scheduler.LambdaLR(opt, lambda it: (1 - it / 100) ** 0.9)
    for epoch in range(2):
        for image, mask in loader:
            image, mask = image.cuda(non_blocking=True), mask.cuda(non_blocking=True)
            loss = F.cross_entropy(net(image), mask)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            poly.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
