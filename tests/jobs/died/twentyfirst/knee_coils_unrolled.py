"""Unrolled reconstruction of undersampled knee images from 8 coils: five steps of gradient and a small CNN each."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

device = "cuda"


class KneeSlices(Dataset):
    def __init__(self, n_slices, coils=8, size=160):
        g = torch.Generator().manual_seed(12)
        self.images = torch.rand(n_slices, coils, 2, size, size, generator=g)
        self.masks = (torch.rand(n_slices, 1, 1, 1, size, generator=g) < 0.3).float()
        self.targets = self.images.pow(2).sum((1, 2)).sqrt()
        if "--fixed" not in sys.argv:
            self.images, self.masks, self.targets = (t.to(device) for t in (self.images, self.masks, self.targets))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i], self.targets[i]


class Denoiser(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(2, w, 3, padding=1), nn.ReLU(), nn.Conv2d(w, w, 3, padding=1), nn.ReLU(), nn.Conv2d(w, 2, 3, padding=1))

    def forward(self, x):
        return x + self.net(x)


class Unrolled(nn.Module):
    def __init__(self, iterations=4):
        super().__init__()
        self.priors = nn.ModuleList(Denoiser() for _ in range(iterations))
        self.rates = nn.Parameter(torch.full((iterations,), 0.1))

    def forward(self, measured, mask):
        x = measured.mean(1)
        for prior, rate in zip(self.priors, self.rates):
            residual = (mask * (x[:, None] - measured)).mean(1)
            x = prior(x - rate * residual)
        return x.pow(2).sum(1).add(1e-6).sqrt()


def main():
    train_set = KneeSlices(400)
    loader = DataLoader(train_set, batch_size=2, shuffle=True)
    model = Unrolled().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (images, mask, target) in enumerate(loader):
        images, mask, target = images.to(device), mask.to(device), target.to(device)
        loss = nn.functional.l1_loss(model(images, mask), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print("step", step, "of", len(loader), "l1", loss.item())
        if step == 60:
            break


main()
