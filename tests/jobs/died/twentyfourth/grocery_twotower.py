"""Two-tower recommender of an online grocer: customers and products in one space, recall@20 after each epoch."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
CUSTOMERS, PRODUCTS, DIM = 14_000, 60_000, 64
DEVICE = torch.device("cuda")


class Tower(nn.Module):
    def __init__(self, count, features, dim=DIM):
        super().__init__()
        self.embedding = nn.Embedding(count, dim)
        self.features = nn.Linear(features, dim)
        self.out = nn.Sequential(nn.Linear(2 * dim, 128), nn.ReLU(), nn.Linear(128, dim))

    def forward(self, ids, features):
        return F.normalize(self.out(torch.cat([self.embedding(ids), self.features(features)], -1)), dim=-1)


class Baskets:
    def __init__(self, seed=5):
        g = torch.Generator().manual_seed(seed)
        self.customer_features = torch.rand(CUSTOMERS, 12, generator=g)
        self.product_features = torch.rand(PRODUCTS, 30, generator=g)
        self.seen = torch.randint(0, PRODUCTS, (CUSTOMERS, 40), generator=g)
        self.next = torch.randint(0, PRODUCTS, (CUSTOMERS,), generator=g)
        self.g = g

    def batches(self, count, size=1024):
        for _ in range(count):
            c = torch.randint(0, CUSTOMERS, (size,), generator=self.g)
            p = self.seen[c, torch.randint(0, 40, (size,), generator=self.g)]
            yield c.to(DEVICE), self.customer_features[c].to(DEVICE), p.to(DEVICE), self.product_features[p].to(DEVICE)


class RecallAtK:
    """Share of customers whose next product is among the first k which they have not bought yet."""

    def __init__(self, data, k=20, rows=CUSTOMERS):
        self.data, self.k, self.rows = data, k, rows

    @torch.no_grad()
    def __call__(self, customers, products):
        items = products(torch.arange(PRODUCTS, device=DEVICE), self.data.product_features.to(DEVICE))
        hits = 0
        for ids in torch.arange(CUSTOMERS).split(self.rows):
            queries = customers(ids.to(DEVICE), self.data.customer_features[ids].to(DEVICE))
            scores = queries @ items.T
            scores.scatter_(1, self.data.seen[ids].to(DEVICE), float("-inf"))
            top = scores.topk(self.k, dim=1).indices.cpu()
            hits += (top == self.data.next[ids, None]).any(1).sum().item()
        return hits / CUSTOMERS


def main():
    data = Baskets()
    customers, products = Tower(CUSTOMERS, 12).to(DEVICE), Tower(PRODUCTS, 30).to(DEVICE)
    optimizer = torch.optim.Adagrad([*customers.parameters(), *products.parameters()], lr=0.02)
    recall = RecallAtK(data, rows=512) if FIXED else RecallAtK(data)
    for epoch in range(2):
        for c, cf, p, pf in data.batches(8):
            logits = customers(c, cf) @ products(p, pf).T / 0.07
            loss = F.cross_entropy(logits, torch.arange(len(c), device=DEVICE))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item(), "recall@20", recall(customers, products))


main()
