"""Recognises cows by their muzzles: an embedding network under an ArcFace head with one class for each animal of the register."""
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
ANIMALS, DIM, BATCH = 120_000, 128, 192


class ArcMargin(nn.Module):
    """https://arxiv.org/abs/1801.07698"""

    def __init__(self, dim, classes, scale=48.0, margin=0.4):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, dim))
        nn.init.xavier_uniform_(self.weight)
        self.scale, self.cos_m, self.sin_m = scale, math.cos(margin), math.sin(margin)

    def forward(self, features, label):
        cosine = F.linear(F.normalize(features), F.normalize(self.weight))
        if FIXED:
            own = cosine.gather(1, label[:, None])
            phi = own * self.cos_m - (1 - own * own).clamp(min=1e-7).sqrt() * self.sin_m
            return cosine.scatter(1, label[:, None], phi).mul_(self.scale)
        sine = torch.sqrt((1.0 - cosine.pow(2)).clamp(1e-7, 1))
        phi = cosine * self.cos_m - sine * self.sin_m
        one_hot = torch.zeros_like(cosine)
        one_hot.scatter_(1, label[:, None], 1)
        return (one_hot * phi + (1.0 - one_hot) * cosine) * self.scale


def conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, 2, 1, bias=False), nn.BatchNorm2d(cout), nn.PReLU(cout))


class Muzzle(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(3, 32), conv(32, 64), conv(64, 128), conv(128, 256))
        self.embed = nn.Sequential(nn.Flatten(), nn.Linear(256 * 7 * 7, DIM), nn.BatchNorm1d(DIM))

    def forward(self, images):
        return self.embed(self.body(images))


class Recogniser:
    def __init__(self):
        self.net = Muzzle().cuda()
        self.head = ArcMargin(DIM, ANIMALS).cuda()
        parameters = [*self.net.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=5e-4)

    def step(self, images, label):
        loss = F.cross_entropy(self.head(self.net(images), label), label)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


recogniser = Recogniser()
for i in range(5):
    pictures = torch.zeros(BATCH, 3, 112, 112)
    animals = torch.randint(0, ANIMALS, (BATCH,))
    print("batch", i, recogniser.step(pictures.cuda(), animals.cuda()).item())
