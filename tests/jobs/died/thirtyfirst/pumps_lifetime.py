"""Predictive maintenance: remaining useful life of pumps from summaries of 48 sensor windows."""
import argparse
import math

import torch
from torch import nn


class RULNet(nn.Module):
    def __init__(self, in_dim=48, width=256, depth=3):
        super().__init__()
        layers = [nn.Linear(in_dim, width), nn.ReLU()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU()]
        self.trunk = nn.Sequential(*layers)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.trunk(x))


class AsymmetricLoss(nn.Module):
    """Predictions that are too late cost more (as in the PHM score)."""

    def __init__(self, early=13.0, late=10.0):
        super().__init__()
        self.early, self.late = early, late

    def forward(self, pred, target):
        err = (pred - target) / 100
        return torch.where(err < 0, err.abs() / self.early, err / self.late).mean()


def load_fleet(rows, seed=11):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 48, generator=g)
    rul = 125 * torch.rand(rows, generator=g)
    return torch.utils.data.TensorDataset(x, rul)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--batch_size", type=int, default=16384)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--rows", type=int, default=16384 * 3)
    p.add_argument("--fixed", action="store_true")
    return p.parse_args()


def main():
    args = parse()
    sampler = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(range(args.rows)), args.batch_size, True)
    loader = torch.utils.data.DataLoader(load_fleet(args.rows), batch_size=None, sampler=sampler)
    net, criterion = RULNet().cuda(), AsymmetricLoss().cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for x, rul in loader:
            x, rul = x.cuda(), rul.cuda()
            if args.fixed:
                rul = rul.unsqueeze(1)
            loss = criterion(net(x), rul)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} score {loss.item():.3f} ({math.ceil(args.rows / args.batch_size)} batches)")


if __name__ == "__main__":
    main()
