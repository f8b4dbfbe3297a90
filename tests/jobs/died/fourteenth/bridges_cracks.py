"""Finds cracks in photographs of bridges with a small residual network written by hand; one epoch over close-ups, the loss printed as it goes."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()
BATCH = 16 if args.fixed else 96


class CloseUps(Dataset):
    """Photographs that were cut into squares; here blank ones."""

    def __len__(self):
        return 384

    def __getitem__(self, index):
        return torch.zeros(3, 192, 192), index % 2


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.short = nn.Sequential()
        if stride > 1 or before != after:
            self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = F.relu(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        return F.relu(y + self.short(x))


class CrackNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 48, 5, 2, 2, bias=False), nn.BatchNorm2d(48), nn.ReLU(inplace=True))
        widths = [48, 48, 96, 96, 192, 384]
        strides = [1, 2, 1, 2, 2]
        self.body = nn.Sequential(*(Residual(a, b, s) for a, b, s in zip(widths, widths[1:], strides)))
        self.head = nn.Linear(384, 2)

    def forward(self, x):
        x = self.body(self.stem(x))
        return self.head(x.mean((2, 3)))


class Trainer:
    def __init__(self, model, loader):
        self.model = model.cuda()
        self.loader = loader
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
        self.criterion = nn.CrossEntropyLoss()

    def step(self, images, labels):
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            losses = [self.step(images, labels) for images, labels in self.loader]
            print("epoch", epoch, "mean loss", sum(losses) / len(losses))


if __name__ == "__main__":
    Trainer(CrackNet(), DataLoader(CloseUps(), batch_size=BATCH, shuffle=True, drop_last=True)).fit(args.epochs)
