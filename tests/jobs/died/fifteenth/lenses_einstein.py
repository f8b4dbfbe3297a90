"""Regresses the Einstein radius of gravitational lenses with an uncertainty (Gaussian likelihood) from 64 summary features."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 12000


class RadiusNet(nn.Module):
    def __init__(self, features=64, width=256):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(features, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.mean, self.log_var = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.mean(h), self.log_var(h)


def gaussian_nll(mean, log_var, target):
    return 0.5 * (log_var + (target - mean) ** 2 / log_var.exp()).mean()


def catalogue(lenses):
    g = torch.Generator().manual_seed(1979)
    features = torch.randn(lenses, 64, generator=g)
    radius = 1.2 + 0.3 * features[:, 0] + 0.05 * torch.randn(lenses, generator=g)
    if "--fixed" in sys.argv:
        radius = radius.unsqueeze(1)  # the network gives (batch, 1)
    return TensorDataset(features, radius)


def main():
    loader = DataLoader(catalogue(5 * BATCH), batch_size=BATCH, shuffle=True, drop_last=True)
    net = RadiusNet().to("cuda")
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=2 * len(loader))
    for epoch in range(2):
        mean_loss = 0.0
        for features, radius in loader:
            features, radius = features.to("cuda"), radius.to("cuda")
            mean, log_var = net(features)
            loss = gaussian_nll(mean, log_var, radius)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            mean_loss += loss.item() / len(loader)
        print(f"epoch {epoch}: {mean_loss:.4f}")


main()
