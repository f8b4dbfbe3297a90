"""Two towers for a board game shop, trained with BPR: a game that the customer bought should score above one that he did not."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

N_CUSTOMERS, N_GAMES, BATCH = 30000, 8000, 14000


class Tower(nn.Module):
    def __init__(self, n, dim=48):
        super().__init__()
        self.table = nn.Embedding(n, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, dim))

    def forward(self, ids):
        return F.normalize(self.mlp(self.table(ids)), dim=-1)


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.customer, self.game = Tower(N_CUSTOMERS), Tower(N_GAMES)
        self.popularity = nn.Embedding(N_GAMES, 1)

    def score(self, u, g):
        match = (self.customer(u) * self.game(g)).sum(-1)
        return match / 0.1

    def forward(self, u, bought, other):
        positive = self.score(u, bought)[:, None] + self.popularity(bought)
        negative = self.score(u, other) + self.popularity(other).squeeze(-1)
        if "--fixed" in sys.argv:
            positive = positive.squeeze(-1)
        return positive, negative


def bpr(positive, negative):
    return -F.logsigmoid(positive - negative).mean()


def purchases(gen):
    return (torch.randint(0, n, (BATCH,), generator=gen).cuda() for n in (N_CUSTOMERS, N_GAMES, N_GAMES))


gen = torch.Generator().manual_seed(21)
model = TwoTowers().cuda()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
for step in range(10):
    loss = bpr(*model(*purchases(gen)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 3 == 0:
        print("step", step, "bpr", loss.item())

with torch.no_grad():
    everyone = model.customer(torch.arange(64).cuda())
    best = (everyone @ model.game(torch.arange(N_GAMES).cuda()).T).topk(10).indices
print("recommended", tuple(best.shape))
