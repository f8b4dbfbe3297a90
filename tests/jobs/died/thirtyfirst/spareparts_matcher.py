"""Finds duplicates in a spare parts catalogue: embedding of the descriptions with batch-hard triplets."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class metric_utils:
    @staticmethod
    def pairwise_sq_dist(a, b):
        if "--fixed" in sys.argv:
            return (a.pow(2).sum(1, keepdim=True) + b.pow(2).sum(1) - 2 * a @ b.T).clamp_min(0)
        return ((a.unsqueeze(1) - b.unsqueeze(0)) ** 2).sum(-1)

    @staticmethod
    def batch_hard(emb, sku, margin=0.3):
        d = metric_utils.pairwise_sq_dist(emb, emb)
        same = sku[:, None] == sku[None]
        pos = d.masked_fill(~same, -1e4).amax(1)
        neg = d.masked_fill(same, 1e4).amin(1)
        return F.relu(pos - neg + margin).mean()


class PartEncoder(nn.Module):
    def __init__(self, vocab=20000, dim=256):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(dim + 8, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, dim))

    def forward(self, tokens, numbers):
        return F.normalize(self.mlp(torch.cat([self.bag(tokens), numbers], 1)), dim=1)


class PKSampler:
    """P skus with K descriptions each."""

    def __init__(self, p, k):
        self.p, self.k, self.g = p, k, torch.Generator().manual_seed(2024)

    def __call__(self):
        n = self.p * self.k
        sku = torch.arange(self.p).repeat_interleave(self.k)
        tokens = torch.randint(0, 20000, (n, 24), generator=self.g)
        return tokens.cuda(), torch.rand(n, 8, generator=self.g).cuda(), sku.cuda()


def run(steps=8):
    net, sampler = PartEncoder().cuda(), PKSampler(p=256, k=4)
    opt = torch.optim.Adam(net.parameters(), lr=3e-4)
    for s in range(steps):
        tokens, numbers, sku = sampler()
        loss = metric_utils.batch_hard(net(tokens, numbers), sku)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if s % 2 == 0:
            print("step", s, "triplet", loss.item())


run()
