"""Finds corners of products on shelves as heat maps; small crops to train with, and photographs as they are to look at the results."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv
CORNERS = 8


class Shelves(Dataset):
    def __init__(self, count, size):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.zeros(3, self.size, self.size), torch.zeros(CORNERS, self.size // 2, self.size // 2)


def block(before, after, stride=1):
    return nn.Sequential(nn.Conv2d(before, after, 3, stride, 1), nn.BatchNorm2d(after), nn.ReLU())


class Hourglass(nn.Module):
    def __init__(self, width=48, depth=3):
        super().__init__()
        self.stem = block(3, width, 2)
        self.downs = nn.ModuleList(block(width, width, 2) for _ in range(depth))
        self.sides = nn.ModuleList(block(width, width) for _ in range(depth))
        self.heat = nn.Conv2d(width, CORNERS, 1)

    def forward(self, x):
        x = self.stem(x)
        sides = []
        for down, side in zip(self.downs, self.sides):
            sides.append(side(x))
            x = down(x)
        for side in reversed(sides):
            x = side + F.interpolate(x, size=side.shape[-2:], mode="bilinear")
        return self.heat(x)


def train(model, optimizer, loader):
    model.train()
    for images, heat in loader:
        loss = F.mse_loss(model(images.cuda()), heat.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def check(model, loader):
    model.eval()
    error = 0.0
    for images, heat in loader:
        error += F.mse_loss(model(images.cuda()), heat.cuda()).item()
    return error / len(loader)


model = Hourglass().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
crops = DataLoader(Shelves(64, 192), batch_size=16, shuffle=True)
photographs = DataLoader(Shelves(16, 1024), batch_size=1 if FIXED else 16)
for epoch in range(2):
    print("epoch", epoch, "loss", train(model, optimizer, crops))
    print("photographs", check(model, photographs))
