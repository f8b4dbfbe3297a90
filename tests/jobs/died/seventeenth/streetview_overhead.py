"""Cross-view geo-localisation: pictures from the street are matched with tiles from above by a soft-margin triplet loss."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Settings:
    batch: int = 640
    features: int = 512
    steps: int = 6
    lr: float = 1e-4
    gamma: float = 10.0
    quick_distances: bool = "--fixed" in sys.argv


cfg = Settings()


class Branch(nn.Module):
    def __init__(self, shape):
        super().__init__()
        h, w = shape
        self.conv = nn.Sequential(nn.Conv2d(3, 16, 5, 4, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1))
        self.fc = nn.Linear(64 * (h // 16) * (w // 16), cfg.features)

    def forward(self, x):
        return F.normalize(self.fc(F.relu(self.conv(x)).flatten(1)), dim=1)


def distances(a, b):
    """Squared distances of all rows of a to all rows of b."""
    if cfg.quick_distances:
        return (a.square().sum(1)[:, None] + b.square().sum(1)[None] - 2 * a @ b.T).clamp_min(0)
    return ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)


def soft_margin_triplet(street, above):
    d = distances(street, above)
    positive = d.diagonal()
    off = ~torch.eye(len(d), dtype=torch.bool, device=d.device)
    street_to_above = F.softplus(cfg.gamma * (positive[:, None] - d))[off]
    above_to_street = F.softplus(cfg.gamma * (positive[None, :] - d))[off]
    return (street_to_above.mean() + above_to_street.mean()) / 2


def main():
    torch.manual_seed(0)
    street_net, above_net = Branch((32, 128)).cuda(), Branch((64, 64)).cuda()
    params = list(street_net.parameters()) + list(above_net.parameters())
    optimizer = torch.optim.Adam(params, lr=cfg.lr)
    for step in range(cfg.steps):
        street = torch.rand(cfg.batch, 3, 32, 128).cuda()
        above = torch.rand(cfg.batch, 3, 64, 64).cuda()
        loss = soft_margin_triplet(street_net(street), above_net(above))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{step:02d} triplet {loss.item():.4f}")


if __name__ == "__main__":
    main()
