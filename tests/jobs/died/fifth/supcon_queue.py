"""Learns representations of skin lesions with supervised contrastive loss against a memory of earlier keys."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
SIZE, DIM, BATCH = 4096, 1024, 128


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layers, inner = [], 3
        for width in 32, 64, 128, 256:
            layers += [nn.Conv2d(inner, width, 3, 2, 1), nn.BatchNorm2d(width), nn.LeakyReLU(0.1)]
            inner = width
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.project = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, DIM))

    def forward(self, x):
        return F.normalize(self.project(self.body(x)), dim=1)


class Memory:
    """The keys of earlier batches and their classes, the oldest first."""

    def __init__(self):
        self.keys = torch.zeros(0, DIM, device="cuda")
        self.classes = torch.zeros(0, dtype=torch.long, device="cuda")

    def push(self, keys, classes):
        self.keys = torch.cat([self.keys, keys.detach()])
        self.classes = torch.cat([self.classes, classes])
        if FIXED:
            self.keys, self.classes = self.keys[-SIZE:].clone(), self.classes[-SIZE:].clone()


def supcon(queries, classes, keys, key_classes, temperature=0.1):
    logp = F.log_softmax(queries @ keys.T / temperature, 1)
    same = (classes[:, None] == key_classes[None]).float()
    return -((logp * same).sum(1) / same.sum(1).clamp(min=1)).mean()


def views(n):
    images = torch.zeros(BATCH, 3, 64, 64)
    classes = torch.arange(BATCH) % 8
    for _ in range(n):
        yield images.cuda(), images.flip(-1).cuda(), classes.cuda()


def main():
    model, memory = Encoder().cuda(), Memory()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400)
    for step, (a, b, classes) in enumerate(views(400)):
        q, k = model(a), model(b)
        keys, key_classes = torch.cat([k, memory.keys]), torch.cat([classes, memory.classes])
        loss = supcon(q, classes, keys, key_classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        memory.push(k, classes)
        if step % 50 == 0:
            print("step", step, "loss", loss.item())


main()
