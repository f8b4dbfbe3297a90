"""Two towers for job advertisements: a member and an ad are near in L1; trained with all other ads of the batch as negatives."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class TowerConfig:
    members: int = 60_000
    ads: int = 25_000
    dim: int = 64
    hidden: int = 256
    batch: int = 1792
    temperature: float = 0.2
    steps: int = 8


class Tower(nn.Module):
    def __init__(self, rows, side_features, cfg):
        super().__init__()
        self.table = nn.Embedding(rows, cfg.dim)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim + side_features, cfg.hidden), nn.ReLU(), nn.Linear(cfg.hidden, cfg.dim))

    def forward(self, index, side):
        return self.mlp(torch.cat([self.table(index), side], 1))


def distances(a, b):
    if "--fixed" in sys.argv:
        return torch.cdist(a, b, p=1)
    return (a.unsqueeze(1) - b.unsqueeze(0)).abs().sum(-1)


class JobAds(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.member, self.ad = Tower(cfg.members, 20, cfg), Tower(cfg.ads, 35, cfg)
        self.temperature = cfg.temperature

    def forward(self, batch):
        scores = -distances(self.member(batch["member"], batch["profile"]), self.ad(batch["ad"], batch["text"])) * self.temperature
        target = torch.arange(scores.shape[0], device=scores.device)
        return 0.5 * (F.cross_entropy(scores, target) + F.cross_entropy(scores.t(), target))


def clicks(cfg):
    g = torch.Generator().manual_seed(31)
    for _ in range(cfg.steps):
        batch = {"member": torch.randint(cfg.members, (cfg.batch,), generator=g), "ad": torch.randint(cfg.ads, (cfg.batch,), generator=g),
                 "profile": torch.randn(cfg.batch, 20, generator=g), "text": torch.randn(cfg.batch, 35, generator=g)}
        yield {key: value.cuda() for key, value in batch.items()}


def fit(cfg):
    model = JobAds(cfg).cuda()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    for step, batch in enumerate(clicks(cfg)):
        loss = model(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    fit(TowerConfig())
