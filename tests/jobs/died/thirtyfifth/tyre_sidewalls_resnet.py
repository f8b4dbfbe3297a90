"""Sorts photographs of tyre sidewalls by condition (eight grades). ResNet written by hand, images read in shards."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

DEVICE = torch.device("cuda")


def read_shard(number, rows=500):
    g = torch.Generator().manual_seed(number)
    return torch.rand(rows, 3, 96, 96, generator=g), torch.randint(0, 8, (rows,), generator=g)


class Sidewalls(Dataset):
    def __init__(self, shards):
        images, grades = [], []
        for number in range(shards):
            x, y = read_shard(number)
            if "--fixed" not in sys.argv:
                x, y = x.to(DEVICE), y.to(DEVICE)
            images.append(x)
            grades.append(y)
        self.images, self.grades = images, grades

    def __len__(self):
        return sum(map(len, self.grades))

    def __getitem__(self, i):
        return self.images[i // 500][i % 500], self.grades[i // 500][i % 500]


class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.main = nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
                                  nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b))
        self.skip = nn.Conv2d(a, b, 1, stride) if stride > 1 or a != b else nn.Identity()

    def forward(self, x):
        return torch.relu(self.main(x) + self.skip(x))


def resnet():
    return nn.Sequential(nn.Conv2d(3, 32, 5, 2, 2), nn.ReLU(), Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2),
                         Residual(128, 256, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(256, 8))


def main():
    data = Sidewalls(shards=18)
    loader = DataLoader(data, batch_size=64, shuffle=True)
    net = resnet().to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    for step, (image, grade) in enumerate(loader):
        loss = criterion(net(image.to(DEVICE)), grade.to(DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print("step", step, "loss", loss.item())
        if step == 20:
            break


main()
