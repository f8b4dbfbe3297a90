"""Learns vibrations of bearings without labels: two views of each window, and the descriptors seen so far serve as negatives."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

LIMIT = 16384 if "--fixed" in sys.argv else None


class Bank(nn.Module):
    """Descriptors of earlier batches, for InfoNCE."""

    def __init__(self, dim, limit=None):
        super().__init__()
        self.limit = limit
        self.register_buffer("rows", torch.zeros(0, dim))

    def add(self, rows):
        rows = torch.cat([self.rows, rows.detach()])
        self.rows = rows[-self.limit:].clone() if self.limit else rows


class Vibration(nn.Module):
    def __init__(self, dim=256, width=16):
        super().__init__()
        layers, cin = [], 1
        for i, stride in enumerate((8, 4, 2, 2, 1)):
            cout = width * 2 ** min(i, 2)
            layers += [nn.Conv1d(cin, cout, 9, stride, 4), nn.BatchNorm1d(cout), nn.GELU()]
            cin = cout
        self.layers = nn.Sequential(*layers)
        self.project = nn.Conv1d(cin, dim, 1)

    def forward(self, x):
        """A descriptor for each segment of the window."""
        return F.normalize(self.project(self.layers(x)), dim=1).transpose(1, 2).flatten(0, 1)


def noisy(x):
    return x + 0.05 * torch.randn_like(x)


def info_nce(a, b, bank, temperature=0.1):
    """The other view of the same segment against a sample of the bank."""
    positive = (a * b).sum(1, keepdim=True)
    if len(bank.rows) == 0:
        return -(positive / temperature).mean()
    chosen = torch.randint(0, len(bank.rows), (256,)).to(a.device)
    negative = a @ bank.rows[chosen].T
    logits = torch.cat([positive, negative], 1) / temperature
    return F.cross_entropy(logits, torch.zeros(len(a), dtype=torch.long, device=a.device))


def main():
    net, bank = Vibration().cuda(), Bank(256, LIMIT).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(36):
        windows = torch.zeros(64, 1, 16384, device="cuda")
        a, b = net(noisy(windows)), net(noisy(windows))
        loss = info_nce(a, b, bank)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bank.add(b)
        if step % 6 == 0:
            print("step", step, "negatives", len(bank.rows), "loss", loss.item())


main()
