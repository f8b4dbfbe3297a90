"""Continual learning on blood smears: hospitals arrive one after the other, and the network rehearses images of the earlier ones (replay)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

CAPACITY = 400 if "--fixed" in sys.argv else None
STAGES = 5      # none, ring, trophozoite, schizont, gametocyte


class SmearNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        layers, c = [], 3
        for k in range(4):
            layers += [nn.Conv2d(c, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            c, width = width, width * 2
        self.conv, self.fc = nn.Sequential(*layers), nn.Linear(c, STAGES)

    def forward(self, x):
        return self.fc(self.conv(x).mean((2, 3)))


class RehearsalMemory:
    def __init__(self, capacity=CAPACITY):
        self.capacity = capacity
        self.images = self.labels = self.logits = None

    def __len__(self):
        return 0 if self.images is None else len(self.images)

    def add(self, images, labels, logits):
        if self.images is None:
            self.images, self.labels, self.logits = images, labels, logits
        else:
            self.images = torch.cat([self.images, images])
            self.labels = torch.cat([self.labels, labels])
            self.logits = torch.cat([self.logits, logits])
        if self.capacity and len(self) > self.capacity:
            keep = torch.randperm(len(self))[:self.capacity].to(images.device)
            self.images, self.labels, self.logits = self.images[keep], self.labels[keep], self.logits[keep]

    def draw(self, n):
        pick = torch.randint(0, len(self), (n,)).to(self.images.device)
        return self.images[pick], self.labels[pick], self.logits[pick]


def hospital(number, batches=25, size=48, side=128):
    g = torch.Generator().manual_seed(number)
    stain = torch.rand(3, 1, 1, generator=g)
    for _ in range(batches):
        yield torch.rand(size, 3, side, side, generator=g) * stain, torch.randint(0, STAGES, (size,), generator=g)


def learn():
    net, memory = SmearNet().cuda(), RehearsalMemory()
    opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    for number in range(4):
        for x, y in hospital(number):
            x, y = x.cuda(), y.cuda()
            logits = net(x)
            loss = F.cross_entropy(logits, y)
            if len(memory):
                old_x, old_y, old_logits = memory.draw(48)
                replayed = net(old_x)
                loss = loss + 0.5 * F.cross_entropy(replayed, old_y) + 0.2 * F.mse_loss(replayed, old_logits)
            opt.zero_grad()
            loss.backward()
            opt.step()
            memory.add(x, y, logits.detach())
        print(f"hospital {number}: loss {loss.item():.3f}")


learn()
