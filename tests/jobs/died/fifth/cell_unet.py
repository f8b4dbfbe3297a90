"""Segments cells in microscopy with a small U-Net; the dice score on the held-out slides is printed after each epoch."""
import contextlib
import sys

import torch
import torch.nn as nn


def double_conv(inner, outer):
    return nn.Sequential(nn.Conv2d(inner, outer, 3, padding=1), nn.GroupNorm(8, outer), nn.ReLU(),
                         nn.Conv2d(outer, outer, 3, padding=1), nn.GroupNorm(8, outer), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, width=24, depth=4):
        super().__init__()
        self.first = double_conv(1, width)
        self.down = nn.ModuleList(double_conv(width << k, width << k + 1) for k in range(depth))
        self.up = nn.ModuleList(nn.ConvTranspose2d(width << k + 1, width << k, 2, 2) for k in reversed(range(depth)))
        self.merge = nn.ModuleList(double_conv(width << k + 1, width << k) for k in reversed(range(depth)))
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        skips = [self.first(x)]
        for block in self.down:
            skips.append(block(nn.functional.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], 1))
        return self.out(x)


class Trainer:
    def __init__(self, model, slides, held_out, fixed):
        self.model = model.cuda()
        self.slides, self.held_out = slides, held_out
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.criterion = nn.BCEWithLogitsLoss()
        self.guard = torch.no_grad if fixed else contextlib.nullcontext

    def train_epoch(self):
        self.model.train()
        for image, mask in zip(*(t.split(8) for t in self.slides)):
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(image.cuda()), mask.cuda())
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def validate(self):
        self.model.eval()
        scores = []
        with self.guard():
            for image, mask in zip(*(t.split(16) for t in self.held_out)):
                found = torch.sigmoid(self.model(image.cuda()))
                mask = mask.cuda()
                dice = 2 * (found * mask).sum() / (found.sum() + mask.sum() + 1e-6)
                scores.append(dice.item())
        return sum(scores) / len(scores)

    def fit(self, epochs):
        for epoch in range(epochs):
            print("epoch", epoch, "loss", self.train_epoch(), "dice", self.validate())


def slides(n, size=192):
    return torch.zeros(n, 1, size, size), torch.ones(n, 1, size, size)


if __name__ == "__main__":
    Trainer(UNet(), slides(48), slides(32), "--fixed" in sys.argv).fit(3)
