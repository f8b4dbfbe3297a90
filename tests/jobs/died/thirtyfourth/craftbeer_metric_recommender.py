"""Collaborative metric learning for craft beers: drinkers and beers are points, and a drinker's beers should be near."""
import sys

import torch
import torch.nn as nn

DRINKERS, BEERS, DIM = 60000, 25000, 64


class BeerSpace(nn.Module):
    def __init__(self):
        super().__init__()
        self.drinker = nn.Embedding(DRINKERS, DIM)
        self.beer = nn.Embedding(BEERS, DIM)
        self.style = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, DIM))
        for table in (self.drinker, self.beer):
            nn.init.normal_(table.weight, std=DIM ** -0.5)

    def distances(self, u, v):
        if "--fixed" in sys.argv:
            return torch.cdist(u, v, compute_mode="use_mm_for_euclid_dist") ** 2
        return ((u.unsqueeze(1) - v.unsqueeze(0)) ** 2).sum(-1)

    def forward(self, drinker, liked, others, styles):
        u, v = self.drinker(drinker), self.beer(liked)
        near = ((u - v) ** 2).sum(-1)
        far = self.distances(u, self.beer(others)).min(dim=1).values
        hinge = (near - far + 0.5).clamp(min=0).mean()
        return hinge + 0.1 * ((self.style(styles) - v) ** 2).sum(-1).mean()


def clip_to_ball(table):
    with torch.no_grad():
        norms = table.weight.norm(dim=1, keepdim=True).clamp(min=1.0)
        table.weight.div_(norms)


g = torch.Generator().manual_seed(5)
space = BeerSpace().cuda()
adagrad = torch.optim.Adagrad(space.parameters(), lr=0.05)
for step in range(12):
    drinker = torch.randint(0, DRINKERS, (2048,), generator=g).cuda()
    liked = torch.randint(0, BEERS, (2048,), generator=g).cuda()
    others = torch.randint(0, BEERS, (3000,), generator=g).cuda()
    styles = torch.rand(2048, 20, generator=g).cuda()
    loss = space(drinker, liked, others, styles)
    adagrad.zero_grad()
    loss.backward()
    adagrad.step()
    clip_to_ball(space.drinker)
    clip_to_ball(space.beer)
    if step % 4 == 0:
        print("step", step, "hinge", loss.item())
