"""Two towers (title, photo features) to find the same article offered twice; hard pairs are mined from recent offers every few steps."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, words=20000, dim=128, photo=512):
        super().__init__()
        self.words = nn.EmbeddingBag(words, 64, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(64 + photo, 512), nn.ReLU(), nn.LayerNorm(512), nn.Linear(512, dim))

    def forward(self, title, photo):
        return self.mlp(torch.cat([self.words(title), photo], -1))


class OfferPool:
    """The offers of the last hour, on the CPU."""

    def __init__(self, size=2200, seed=8):
        g = torch.Generator().manual_seed(seed)
        self.titles = torch.randint(0, 20000, (size, 16), generator=g)
        self.photos = torch.randn(size, 512, generator=g)
        self.g = g

    def sample(self, count):
        rows = torch.randint(0, len(self.titles), (count,), generator=self.g)
        return self.titles[rows].cuda(), self.photos[rows].cuda()

    def all(self):
        return self.titles.cuda(), self.photos.cuda()


def similarity(a, b):
    if "--fixed" in sys.argv:
        return F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T
    return F.cosine_similarity(a.unsqueeze(1), b.unsqueeze(0), dim=-1)


class Trainer:
    def __init__(self):
        self.seller, self.buyer = Tower().cuda(), Tower().cuda()
        self.params = [*self.seller.parameters(), *self.buyer.parameters()]
        self.opt = torch.optim.Adam(self.params, lr=5e-4)
        self.pool = OfferPool()

    def contrast(self, left, right, t=0.07):
        scores = similarity(self.seller(*left), self.buyer(*right)) / t
        labels = torch.arange(len(scores), device="cuda")
        return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.T, labels)) / 2

    @torch.no_grad()
    def mine(self, count=64):
        offers = self.pool.all()
        scores = similarity(self.seller(*offers), self.buyer(*offers))
        scores.fill_diagonal_(-1)
        return scores.max(1).values.topk(count).values.mean().item()

    def run(self, steps=9):
        for i in range(steps):
            loss = self.contrast(self.pool.sample(96), self.pool.sample(96))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            if i % 3 == 2:
                print("step", i, "loss", loss.item(), "hardest pairs", self.mine())


Trainer().run()
