"""Grades biopsies from bags of patch features with gated attention pooling; a bag has as many patches as the slide has tissue."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MOST = 4000 if "--fixed" in sys.argv else None  # patches that are drawn from a slide
PATCHES = [2600, 1800, 3300, 2900, 1500, 3900, 2200, 41000, 3100, 2500, 1900, 2800]


class Slides(Dataset):
    """Features of 768 numbers a patch, stored by another program."""

    def __len__(self):
        return len(PATCHES)

    def __getitem__(self, k):
        features = torch.zeros(PATCHES[k], 768)
        if MOST and len(features) > MOST:
            features = features[torch.randperm(len(features))[:MOST]]
        return features, k % 5


class GatedAttention(nn.Module):
    def __init__(self, dim, hidden, heads):
        super().__init__()
        self.v = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh())
        self.u = nn.Sequential(nn.Linear(dim, hidden), nn.Sigmoid())
        self.w = nn.Linear(hidden, heads)

    def forward(self, h):
        return torch.softmax(self.w(self.v(h) * self.u(h)), 0)


class BagNet(nn.Module):
    def __init__(self, dim=768, inner=1024, heads=2, grades=5):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(dim, inner), nn.LayerNorm(inner), nn.GELU(), nn.Dropout(0.25),
                                   nn.Linear(inner, inner), nn.LayerNorm(inner), nn.GELU(), nn.Dropout(0.25))
        self.attend = GatedAttention(inner, 512, heads)
        self.instance = nn.Linear(inner, grades)
        self.grade = nn.Linear(inner * heads, grades)

    def forward(self, patches):
        h = self.embed(patches)
        weights = self.attend(h)
        pooled = weights.T @ h
        return self.grade(pooled.flatten()), (weights.mean(1, keepdim=True) * self.instance(h)).sum(0)


class Run:
    def __init__(self):
        self.model = BagNet().to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-4, weight_decay=1e-3)
        self.criterion = nn.CrossEntropyLoss()
        self.every = 4

    def epoch(self, loader):
        self.model.train()
        for n, (patches, grade) in enumerate(loader, 1):
            patches, grade = patches.to("cuda", non_blocking=True), torch.tensor(grade).to("cuda")
            bag, instances = self.model(patches)
            loss = self.criterion(bag, grade) + 0.3 * self.criterion(instances, grade)
            (loss / self.every).backward()
            if n % self.every == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
            print("slide", n, "patches", len(patches), "loss", loss.item())


run = Run()
run.epoch(DataLoader(Slides(), batch_size=None, shuffle=False))
