"""Estimates the speed of road segments with GraphSAGE; trains on sampled neighbourhoods and evaluates on the map of the city."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
SEGMENTS, LINKS, DIM, HIDDEN = 120000, 700000, 32, 192


class Convolution(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.own, self.others = nn.Linear(inner, outer), nn.Linear(inner, outer, bias=False)

    def forward(self, x, links):
        source, target = links
        messages = x[source]
        total = torch.zeros_like(x).index_add_(0, target, messages)
        count = torch.zeros(len(x), 1, device=x.device).index_add_(0, target, torch.ones(len(target), 1, device=x.device))
        return self.own(x) + self.others(total / count.clamp(min=1))


class Sage(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        sizes = [DIM] + [HIDDEN] * layers
        self.convolutions = nn.ModuleList(Convolution(a, b) for a, b in zip(sizes, sizes[1:]))
        self.head = nn.Linear(HIDDEN, 1)

    def forward(self, x, links):
        for convolution in self.convolutions:
            x = F.relu(convolution(x, links))
        return self.head(x).squeeze(-1)


class City:
    def __init__(self):
        generator = torch.Generator().manual_seed(3)
        self.x = torch.rand(SEGMENTS, DIM, generator=generator)
        self.speed = torch.rand(SEGMENTS, generator=generator) * 80
        start = torch.randint(SEGMENTS, (LINKS,), generator=generator)
        self.links = torch.stack([start, (start + torch.randint(1, 60, (LINKS,), generator=generator)) % SEGMENTS])

    def district(self, first, size):
        """The segments of a part of the map and the links between them."""
        inside = (self.links >= first).all(0) & (self.links < first + size).all(0)
        return self.x[first:first + size], self.links[:, inside] - first, self.speed[first:first + size]


def evaluate(model, city):
    model.eval()
    size = 20000 if FIXED else SEGMENTS
    errors = []
    with torch.no_grad():
        for first in range(0, SEGMENTS, size):
            x, links, speed = city.district(first, size)
            errors.append((model(x.cuda(), links.cuda()) - speed.cuda()).abs().mean().item())
    return sum(errors) / len(errors)


city, model = City(), Sage().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    model.train()
    for first in range(0, SEGMENTS, 20000):
        x, links, speed = city.district(first, 10000)
        loss = F.smooth_l1_loss(model(x.cuda(), links.cuda()), speed.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item(), "error", evaluate(model, city))
