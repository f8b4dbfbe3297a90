"""Recognises diseases of tomato leaves with a DenseNet of our own; a Trainer class runs epochs and reports the mean validation loss."""
import contextlib
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = "--fixed" in sys.argv


class DenseLayer(nn.Module):
    def __init__(self, width, growth):
        super().__init__()
        self.layers = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 4 * growth, 1, bias=False),
                                    nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.layers(x)], 1)


def densenet(classes, growth=16, blocks=(4, 6, 6)):
    layers, width = [nn.Conv2d(3, 32, 7, 2, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 32
    for depth in blocks:
        for _ in range(depth):
            layers.append(DenseLayer(width, growth))
            width += growth
        layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
        width //= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


class Trainer:
    def __init__(self, model, train, valid, epochs):
        self.model = model.cuda()
        self.train, self.valid, self.epochs = train, valid, epochs
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        self.criterion = nn.CrossEntropyLoss()

    def train_epoch(self):
        self.model.train()
        running = 0.0
        for images, labels in self.train:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(images.cuda()), labels.cuda())
            loss.backward()
            self.optimizer.step()
            running += loss.item()
        return running / len(self.train)

    def validate(self):
        self.model.eval()
        total, hits = 0, 0
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            for images, labels in self.valid:
                logits, labels = self.model(images.cuda()), labels.cuda()
                total += self.criterion(logits, labels)
                hits += (logits.argmax(1) == labels).sum()
        return (total / len(self.valid)).item(), hits.item()

    def fit(self):
        for epoch in range(self.epochs):
            print(epoch, self.train_epoch(), *self.validate())


def leaves(n):
    return TensorDataset(torch.zeros(n, 3, 160, 160), torch.randint(0, 10, (n,)))


torch.manual_seed(1)
Trainer(densenet(10), DataLoader(leaves(128), 32, shuffle=True), DataLoader(leaves(192), 32), 2).fit()
