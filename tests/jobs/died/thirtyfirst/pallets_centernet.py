"""Warehouse cameras: CenterNet-like detector of pallets."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = torch.device("cuda:0")


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.b = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride)

    def forward(self, x):
        return F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))) + self.skip(x))


class PalletNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(Block(3, 32, 2), Block(32, 64, 2), Block(64, 128, 2))
        self.up = nn.ConvTranspose2d(128, 64, 4, 2, 1)
        self.heat, self.wh = nn.Conv2d(64, 3, 1), nn.Conv2d(64, 2, 1)

    def forward(self, x):
        f = F.relu(self.up(self.backbone(x)))
        return {"heat": self.heat(f), "wh": self.wh(f)}


def criterion(out, target):
    return {"heat": F.binary_cross_entropy_with_logits(out["heat"], target["heat"]), "wh": F.l1_loss(out["wh"], target["wh"])}


def frames(n, bs, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        img = torch.rand(bs, 3, 256, 256, generator=g)
        yield img, {"heat": torch.zeros(bs, 3, 64, 64), "wh": torch.ones(bs, 2, 64, 64)}


class Evaluator:
    def __init__(self, model, batches=14):
        self.model, self.batches = model, batches

    def reset(self):
        self.totals, self.seen = defaultdict(float), 0

    def run(self):
        self.reset()
        self.model.eval()
        for img, target in frames(self.batches, 8, 99):
            self.update(self.model(img.to(DEVICE)), {k: v.to(DEVICE) for k, v in target.items()})
        self.model.train()
        return {k: float(v) / self.seen for k, v in self.totals.items()}

    def update(self, out, target):
        for name, value in criterion(out, target).items():
            self.totals[name] += value
        self.seen += 1


def train(epochs=2):
    model = PalletNet().to(DEVICE)
    opt = torch.optim.Adam(model.parameters(), 2e-4)
    evaluator = Evaluator(model)
    evaluate = torch.no_grad()(evaluator.run) if "--fixed" in sys.argv else evaluator.run
    for epoch in range(epochs):
        for img, target in frames(5, 8, epoch):
            losses = criterion(model(img.to(DEVICE)), {k: v.to(DEVICE) for k, v in target.items()})
            opt.zero_grad()
            (losses["heat"] + 0.1 * losses["wh"]).backward()
            opt.step()
        print("epoch", epoch, evaluate())


train()
