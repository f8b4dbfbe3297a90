"""Learns to recognise coins from two photographs of each, with InfoNCE against the coins seen before."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

LIMIT = 4096 if "--fixed" in sys.argv else None


class Memory:
    """Vectors of coins that were seen, as negatives."""

    def __init__(self, width):
        self.vectors = torch.empty(0, width, device="cuda")

    def add(self, vectors):
        self.vectors = torch.cat([self.vectors, vectors.detach()])
        if LIMIT:
            self.vectors = self.vectors[-LIMIT:].clone()


class CoinNet(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        sizes = 3, 32, 64, 96
        self.trunk = nn.Sequential(*(nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in zip(sizes, sizes[1:])))
        self.head = nn.Sequential(nn.Linear(96, 512), nn.ReLU(), nn.Linear(512, width))

    def forward(self, coins):
        return F.normalize(self.head(self.trunk(coins).mean((2, 3))), dim=1)


def info_nce(a, b, negatives, temperature=0.1):
    positive = (a * b).sum(1, keepdim=True)
    scores = torch.cat([positive, a @ negatives.T], 1) / temperature
    return F.cross_entropy(scores, torch.zeros(len(a), dtype=torch.long, device=a.device))


def pairs(count, batch=512, size=24):
    for _ in range(count):
        yield torch.zeros(batch, 3, size, size), torch.zeros(batch, 3, size, size)


net, memory = CoinNet().cuda(), Memory(1024)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for step, (obverse, again) in enumerate(pairs(200)):
    a, b = net(obverse.cuda()), net(again.cuda())
    loss = info_nce(a, b, memory.vectors)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    memory.add(b)
    if step % 40 == 0:
        print("step", step, "negatives", len(memory.vectors), "loss", loss.item())
