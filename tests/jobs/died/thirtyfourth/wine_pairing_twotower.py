"""Two towers that match dishes with wines. In-batch negatives, then recall at 10 and 100 on held-out dishes."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
DISH_WORDS, WINE_FEATURES, DIM = 30000, 120, 96
N_WINES, N_TEST = 50000, 9000

gen = torch.Generator().manual_seed(1855)
wines = torch.randn(N_WINES, WINE_FEATURES, generator=gen)
dishes = torch.randint(0, DISH_WORDS, (N_TEST + 20000, 16), generator=gen)
drank = torch.randint(0, N_WINES, (N_TEST + 20000,), generator=gen)


class DishTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(DISH_WORDS, 128, mode="mean")
        self.head = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, DIM))

    def forward(self, ids):
        return F.normalize(self.head(self.words(ids)), dim=-1)


class WineTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WINE_FEATURES, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, DIM))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


def recall(dish_tower, wine_tower, ks=(10, 100)):
    dish_tower.eval(), wine_tower.eval()
    hits = {k: 0.0 for k in ks}
    with torch.no_grad():
        bank = torch.cat([wine_tower(part.cuda()) for part in wines.split(4096)])
        query = torch.cat([dish_tower(part.cuda()) for part in dishes[:N_TEST].split(1024)])
        truth = drank[:N_TEST].cuda()
        step = 256 if FIXED else N_TEST
        for q, t in zip(query.split(step), truth.split(step)):
            similarity = q @ bank.T / 0.05
            ranked = similarity.topk(max(ks), dim=1).indices
            for k in ks:
                hits[k] += (ranked[:, :k] == t[:, None]).any(1).float().sum().item()
    dish_tower.train(), wine_tower.train()
    return {k: h / N_TEST for k, h in hits.items()}


dish_tower, wine_tower = DishTower().cuda(), WineTower().cuda()
optimizer = torch.optim.Adam([*dish_tower.parameters(), *wine_tower.parameters()], lr=1e-3)
for epoch in range(2):
    for step in range(10):
        rows = torch.randint(N_TEST, len(dishes), (512,), generator=gen)
        d = dish_tower(dishes[rows].cuda())
        w = wine_tower(wines[drank[rows]].cuda())
        loss = F.cross_entropy(d @ w.T / 0.05, torch.arange(512, device="cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, loss.item(), recall(dish_tower, wine_tower))
