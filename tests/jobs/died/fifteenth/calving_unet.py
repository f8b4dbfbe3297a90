"""Traces calving fronts of glaciers in two-channel radar scenes with a U-Net of our own."""
import sys
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Options:
    tile: int = 320 if "--fixed" in sys.argv else 704  # 704 pixels hold a whole front
    batch: int = 6
    width: int = 24
    rate: float = 2e-3
    epochs: int = 2


class Scenes(Dataset):
    def __init__(self, tile, count=18):
        self.tile, self.count = tile, count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        g = torch.Generator().manual_seed(number)
        radar = torch.randn(2, self.tile, self.tile, generator=g)
        column = torch.arange(self.tile)[None, :]
        ice = (column < self.tile // 2 + number).float().expand(self.tile, -1)
        return radar, ice.clone()[None]


def double(before, after):
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.LeakyReLU(0.1),
                         nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.LeakyReLU(0.1))


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        w = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList([double(2, w[0]), double(w[0], w[1]), double(w[1], w[2])])
        self.middle = double(w[2], w[3])
        self.rise = nn.ModuleList([nn.ConvTranspose2d(w[i + 1], w[i], 2, stride=2) for i in (2, 1, 0)])
        self.up = nn.ModuleList([double(2 * w[i], w[i]) for i in (2, 1, 0)])
        self.last = nn.Conv2d(w[0], 1, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for rise, block in zip(self.rise, self.up):
            x = block(torch.cat([rise(x), kept.pop()], dim=1))
        return self.last(x)


def dice(logits, ice):
    p = logits.sigmoid()
    return 1 - (2 * (p * ice).sum() + 1) / (p.sum() + ice.sum() + 1)


if __name__ == "__main__":
    o = Options()
    net = UNet(o.width).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=o.rate, momentum=0.9, nesterov=True)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(o.epochs):
        for radar, ice in DataLoader(Scenes(o.tile), batch_size=o.batch, shuffle=True):
            radar, ice = radar.cuda(non_blocking=True), ice.cuda(non_blocking=True)
            out = net(radar)
            loss = bce(out, ice) + dice(out, ice)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")
