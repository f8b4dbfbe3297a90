"""Segments vessels in fundus photographs with a residual U-Net, trained on crops that are drawn from each photograph."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()


@dataclass
class Config:
    crop: int = 512  # the crop was set to most of the photograph
    batch: int = 6
    width: int = 24
    depth: int = 4
    steps: int = 6
    lr: float = 1e-3


cfg = Config(crop=256) if args.fixed else Config()


class Residual(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.LeakyReLU(0.1))
        self.b = nn.Sequential(nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout))
        self.skip = nn.Conv2d(cin, cout, 1)

    def forward(self, x):
        return F.leaky_relu(self.b(self.a(x)) + self.skip(x), 0.1)


class VesselNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        sizes = [width * 2 ** k for k in range(depth)]
        self.down = nn.ModuleList(Residual(i, o) for i, o in zip([3] + sizes, sizes))
        self.up = nn.ModuleList(Residual(sizes[k] + sizes[k - 1], sizes[k - 1]) for k in range(depth - 1, 0, -1))
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        kept = []
        for n, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if n else x)
            kept.append(x)
        kept.pop()
        for block in self.up:
            side = kept.pop()
            x = block(torch.cat([F.interpolate(x, size=side.shape[-2:], mode="nearest"), side], 1))
        return self.head(x)


class Photographs(torch.utils.data.Dataset):
    """Photographs of 584 x 565 pixels with the tracing of one grader."""

    def __init__(self, n, crop):
        self.n, self.crop = n, crop

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        photograph, tracing = torch.zeros(3, 584, 565), torch.zeros(1, 584, 565)
        y, x = (7 * k) % (584 - self.crop), (11 * k) % (565 - self.crop)
        return photograph[:, y:y + self.crop, x:x + self.crop], tracing[:, y:y + self.crop, x:x + self.crop]


def dice(logits, target):
    p = torch.sigmoid(logits)
    return 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)


def main():
    loader = torch.utils.data.DataLoader(Photographs(cfg.batch * cfg.steps, cfg.crop), batch_size=cfg.batch)
    net = VesselNet(cfg.width, cfg.depth).cuda()
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    for step, (image, mask) in enumerate(loader):
        image, mask = image.cuda(), mask.cuda()
        logits = net(image)
        loss = F.binary_cross_entropy_with_logits(logits, mask) + dice(logits, mask)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{step:3d} {loss.item():.4f}")


if __name__ == "__main__":
    main()
