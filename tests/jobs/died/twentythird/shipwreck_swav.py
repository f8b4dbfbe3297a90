"""Self-supervised pretraining on side-scan sonar of wrecks: two global and six local crops against swapped prototype assignments (SwAV)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
GLOBAL, LOCAL = 128, 96


class Basic(nn.Module):
    def __init__(self, i, o, s):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o)
        self.c2, self.b2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.skip = nn.Conv2d(i, o, 1, s, bias=False)

    def forward(self, x):
        h = F.relu(self.b1(self.c1(x)), inplace=True)
        return F.relu(self.b2(self.c2(h)) + self.skip(x), inplace=True)


class SonarEncoder(nn.Module):
    def __init__(self, prototypes=300):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 32, 3, 2, 1), Basic(32, 32, 1), Basic(32, 64, 2), Basic(64, 128, 2),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.project = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64))
        self.prototypes = nn.Linear(64, prototypes, bias=False)

    def forward(self, x):
        return self.prototypes(F.normalize(self.project(self.net(x)), dim=1))


@torch.no_grad()
def sinkhorn(scores, rounds=3):
    q = torch.exp(scores / 0.05).t()
    q = q / q.sum()
    for _ in range(rounds):
        q = q / q.sum(1, keepdim=True) / q.shape[0]
        q = q / q.sum(0, keepdim=True) / q.shape[1]
    return (q * q.shape[1]).t()


def crops(batch):
    """The eight views of a batch; a real job would flip, rotate and add speckle."""
    mosaic = torch.rand(batch, 1, 256, 256)
    views = []
    for k in range(8):
        side = GLOBAL if k < 2 else LOCAL
        top, left = torch.randint(0, 256 - side, (2,)).tolist()
        views.append(mosaic[:, :, top:top + side, left:left + side].cuda(non_blocking=True))
    return views


def swapped(scores, code):
    return -(code * F.log_softmax(scores / 0.1, 1)).sum(1).mean()


def train_batch(model, views):
    with torch.no_grad():
        codes = [sinkhorn(model(v)) for v in views[:2]]
    losses = [(k, j) for k in range(len(views)) for j in range(2) if j != k]
    total = 0.0
    for k, view in enumerate(views):
        scores = model(view)
        loss = sum(swapped(scores, codes[j]) for kk, j in losses if kk == k) / len(losses)
        if FIXED:
            loss.backward()
            loss = loss.detach()
        total = total + loss
    if not FIXED:
        total.backward()
    return total


torch.manual_seed(31)
model = SonarEncoder().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9, weight_decay=1e-6)
for step in range(7):
    with torch.no_grad():
        model.prototypes.weight.copy_(F.normalize(model.prototypes.weight, dim=1))
    optimizer.zero_grad()
    loss = train_batch(model, crops(96))
    optimizer.step()
    print("step", step, "loss", float(loss))
