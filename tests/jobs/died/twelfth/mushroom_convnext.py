"""Classifies photos of mushrooms with a small ConvNeXt written after the paper; settings come from a config dataclass."""
import dataclasses
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


@dataclasses.dataclass
class Config:
    depths: tuple = (3, 3, 9, 3)
    widths: tuple = (48, 96, 192, 384)
    classes: int = 120
    size: int = 192
    batch: int = 96
    steps: int = 4
    lr: float = 4e-4
    weight_decay: float = 0.05


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(1e-6 * torch.ones(width))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.gamma * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        layers, before = [], 3
        for n, (depth, width) in enumerate(zip(cfg.depths, cfg.widths)):
            if n == 0:
                layers += [nn.Conv2d(before, width, 4, 4), LayerNorm2d(width)]
            else:
                layers += [LayerNorm2d(before), nn.Conv2d(before, width, 2, 2)]
            layers += [Block(width) for _ in range(depth)]
            before = width
        self.body, self.norm, self.head = nn.Sequential(*layers), nn.LayerNorm(before), nn.Linear(before, cfg.classes)

    def forward(self, x):
        return self.head(self.norm(self.body(x).mean((2, 3))))


class Mushrooms(Dataset):
    def __init__(self, cfg):
        self.cfg = cfg

    def __len__(self):
        return self.cfg.batch * self.cfg.steps

    def __getitem__(self, n):
        return torch.zeros(3, self.cfg.size, self.cfg.size), n % self.cfg.classes


def main(cfg):
    torch.manual_seed(0)
    model = ConvNeXt(cfg).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    for step, (images, labels) in enumerate(DataLoader(Mushrooms(cfg), batch_size=cfg.batch, shuffle=True)):
        loss = loss_of(model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print("step %d loss %.3f" % (step, loss.item()))


main(Config(batch=32) if "--fixed" in sys.argv else Config())
