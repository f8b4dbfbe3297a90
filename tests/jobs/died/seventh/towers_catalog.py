"""Two towers for a shop's recommendations: the history of a customer against the articles of the catalogue, with cross-entropy over articles."""
import sys
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

SAMPLED = "--fixed" in sys.argv


class Sizes(NamedTuple):
    articles: int = 120_000
    dim: int = 64
    history: int = 30
    batch: int = 512
    negatives: int = 2000


S = Sizes()


class HistoryTower(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = table
        self.position = nn.Parameter(torch.zeros(S.history, S.dim))
        self.mix = nn.GRUCell(S.dim, S.dim)
        self.out = nn.Sequential(nn.Linear(S.dim, 2 * S.dim), nn.ReLU(), nn.Linear(2 * S.dim, S.dim))

    def forward(self, history):
        x = self.table(history) + self.position
        state = x.new_zeros(x.size(0), S.dim)
        for t in range(0, S.history, 3):
            state = self.mix(x[:, t:t + 3].mean(1), state)
        return F.normalize(self.out(state), dim=-1)


class ArticleTower(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = table
        self.out = nn.Linear(S.dim, S.dim)

    def forward(self, ids):
        return F.normalize(self.out(self.table(ids)), dim=-1)


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        table = nn.Embedding(S.articles, S.dim)
        self.customers, self.items = HistoryTower(table), ArticleTower(table)
        self.register_buffer("all_ids", torch.arange(S.articles))
        self.temperature = 0.07

    def loss(self, history, bought):
        user = self.customers(history)
        if SAMPLED:
            ids = torch.cat([bought, torch.randint(0, S.articles, (S.negatives,), device=bought.device)])
            target = torch.arange(len(bought), device=bought.device)
        else:
            ids, target = self.all_ids, bought
        scores = user @ self.items(ids).T
        return F.cross_entropy(scores / self.temperature, target, label_smoothing=0.1)


def purchases(steps):
    generator = torch.Generator().manual_seed(11)
    for _ in range(steps):
        yield (torch.randint(0, S.articles, (S.batch, S.history), generator=generator),
               torch.randint(0, S.articles, (S.batch,), generator=generator))


model = TwoTowers().cuda()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
for step, (history, bought) in enumerate(purchases(6)):
    loss = model.loss(history.cuda(), bought.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", float(loss))
