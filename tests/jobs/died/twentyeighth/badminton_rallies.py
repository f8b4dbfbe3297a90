"""Matches rallies (shuttle and player positions) with the umpire's notation: two towers, InfoNCE over the batch."""
import math
import sys

import torch
from torch import nn
import torch.nn.functional as F

BATCH, DIM = 1536, 256


class RallyTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(6, 64, 5, 2), nn.ReLU(), nn.Conv1d(64, 128, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
                                 nn.Linear(128, DIM))

    def forward(self, track):
        return self.net(track)


class NotationTower(nn.Module):
    def __init__(self, strokes=60):
        super().__init__()
        self.bag = nn.EmbeddingBag(strokes, 128)
        self.net = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, DIM))

    def forward(self, strokes):
        return self.net(self.bag(strokes))


class InfoNCE(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def similarity(self, a, b):
        return F.cosine_similarity(a.unsqueeze(1), b.unsqueeze(0), dim=-1)

    def forward(self, a, b):
        logits = self.similarity(a, b) * self.scale.exp()
        target = torch.arange(len(a), device=a.device)
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


class MatmulNCE(InfoNCE):
    def similarity(self, a, b):
        return F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T


def rallies(n):
    gen = torch.Generator().manual_seed(21)
    for _ in range(n):
        yield torch.randn(BATCH, 6, 128, generator=gen), torch.randint(60, (BATCH, 24), generator=gen)


rally, notation = RallyTower().cuda(), NotationTower().cuda()
criterion = (MatmulNCE() if "--fixed" in sys.argv else InfoNCE()).cuda()
optimizer = torch.optim.AdamW([*rally.parameters(), *notation.parameters(), *criterion.parameters()], lr=1e-3)
for step, (track, strokes) in enumerate(rallies(8)):
    loss = criterion(rally(track.cuda()), notation(strokes.cuda()))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
