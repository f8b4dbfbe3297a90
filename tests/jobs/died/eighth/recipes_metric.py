"""A two-tower recommender of recipes that learns distances (collaborative metric learning); other users' recipes of the batch are the negatives."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

USERS, RECIPES, WIDTH, BATCH = 20000, 30000, 64, 1536
FIXED = "--fixed" in sys.argv


class Tower(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.table = nn.Embedding(n, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, WIDTH))

    def forward(self, ids):
        return F.normalize(self.mlp(self.table(ids)), dim=-1)


class MetricLearner(nn.Module):
    def __init__(self, margin=0.5):
        super().__init__()
        self.users, self.recipes, self.margin = Tower(USERS), Tower(RECIPES), margin

    def distances(self, u, r):
        if FIXED:
            return 2 - 2 * u @ r.T
        return (u.unsqueeze(1) - r.unsqueeze(0)).pow(2).sum(-1)

    def forward(self, users, recipes):
        d = self.distances(self.users(users), self.recipes(recipes))
        near = d.diagonal().unsqueeze(1)
        loss = F.relu(near - d + self.margin)
        return loss.mean()


def main():
    model = MetricLearner().to("cuda")
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(0)
    for step in range(8):
        users = torch.randint(0, USERS, (BATCH,), generator=generator).to("cuda")
        recipes = torch.randint(0, RECIPES, (BATCH,), generator=generator).to("cuda")
        loss = model(users, recipes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
