"""Chest X-rays with a moving average of the weights: the trainer object is copied for it, which brings the optimizer along, and its states."""
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Dense(nn.Module):
    def __init__(self, i, growth=48, n=6):
        super().__init__()
        self.convs = nn.ModuleList([nn.Sequential(nn.BatchNorm2d(i + k * growth), nn.ReLU(), nn.Conv2d(i + k * growth, growth, 3, 1, 1))
                                    for k in range(n)])

    def forward(self, x):
        for conv in self.convs:
            x = torch.cat([x, conv(x)], 1)
        return x


class Trainer:
    def __init__(self, lr):
        self.net = nn.Sequential(nn.Conv2d(1, 96, 7, 4, 3), Dense(96), nn.AvgPool2d(2), Dense(384), nn.AvgPool2d(2), nn.Conv2d(672, 1024, 3, 1, 1),
                                 nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16384, 3072), nn.ReLU(), nn.Linear(3072, 14)).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=lr)

    def step(self, x, y):
        loss = F.binary_cross_entropy_with_logits(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--start-ema", type=int, default=3)
args = parser.parse_args()
trainer, ema = Trainer(1e-4), None
for step in range(9):
    x, y = torch.rand(4, 1, 128, 128).cuda(), torch.randint(0, 2, (4, 14)).float().cuda()
    loss = trainer.step(x, y)
    if step == args.start_ema:
        ema = copy.deepcopy(trainer.net).requires_grad_(False) if args.fixed else copy.deepcopy(trainer)
    elif ema:
        net = ema if args.fixed else ema.net
        with torch.no_grad():
            for a, b in zip(net.parameters(), trainer.net.parameters()):
                a.lerp_(b, 0.01)
    trainer.optimizer.zero_grad()
    print(step, loss)
