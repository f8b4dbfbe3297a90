"""Embeds the descriptions of spare parts so that double entries of several plants find each other; trained with triplets."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class DescriptionEncoder(nn.Module):
    def __init__(self, trigrams=30_000, dim=128):
        super().__init__()
        self.bag = nn.EmbeddingBag(trigrams, 192, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(192, 256), nn.LayerNorm(256), nn.GELU(), nn.Linear(256, dim))

    def forward(self, trigrams):
        return F.normalize(self.mlp(self.bag(trigrams)), dim=-1)


def distances(e):
    return (2 - 2 * e @ e.T).clamp_min(1e-6).sqrt()


class TripletLoss(nn.Module):
    """Each pair of the same part against each other part of the batch."""

    def __init__(self, margin=0.2):
        super().__init__()
        self.margin = margin

    def forward(self, embeddings, parts):
        d = distances(embeddings)
        same = parts[:, None] == parts[None, :]
        valid = same[:, :, None] & ~same[:, None, :]
        triplets = F.relu(d[:, :, None] - d[:, None, :] + self.margin) * valid
        active = (triplets > 1e-7).sum()
        return triplets.sum() / (active + 1e-7)


class HardTripletLoss(TripletLoss):
    """Each part against the furthest of its own and the nearest of the others."""

    def forward(self, embeddings, parts):
        d = distances(embeddings)
        same = parts[:, None] == parts[None, :]
        furthest = (d * same).amax(1)
        nearest = (d + 10.0 * same).amin(1)
        return F.relu(furthest - nearest + self.margin).mean()


class PartSampler:
    """128 parts with four descriptions each."""

    def __init__(self, parts=128, each=4, seed=15):
        self.parts, self.each, self.g = parts, each, torch.Generator().manual_seed(seed)

    def draw(self):
        ids = torch.randperm(20_000, generator=self.g)[: self.parts].repeat_interleave(self.each)
        return torch.randint(0, 30_000, (len(ids), 40), generator=self.g).cuda(), ids.cuda()


encoder = DescriptionEncoder().cuda()
criterion = HardTripletLoss() if "--fixed" in sys.argv else TripletLoss()
optimizer = torch.optim.Adam(encoder.parameters(), lr=5e-4)
sampler = PartSampler()
for step in range(10):
    descriptions, ids = sampler.draw()
    loss = criterion(encoder(descriptions), ids)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print("step", step + 1, "loss", loss.item())
