"""Is there an avalanche in the last minutes of the radar? InceptionTime over sliding windows of twelve range gates."""
import sys

import torch
from torch import nn

GATES, WINDOW, SAMPLES = 12, 512, 60000
FIXED = "--fixed" in sys.argv


def record():
    """One winter from the archive: readings per gate, and the observers' label per sample."""
    g = torch.Generator().manual_seed(1999)
    return torch.rand(GATES, SAMPLES, generator=g), torch.randint(0, 2, (SAMPLES,), generator=g)


class Windows:
    """All windows of the winter, in random order, as batches on the card."""

    def __init__(self, series, labels, batch_size=64, device="cuda"):
        self.batch_size, self.device = batch_size, device
        views = series.unfold(1, WINDOW, 1).permute(1, 0, 2)
        labels = labels[WINDOW - 1:]
        if FIXED:
            self.x, self.y = views, labels
        else:
            self.x, self.y = views.to(device).contiguous(), labels.to(device)
        self.g = torch.Generator().manual_seed(3)

    def sample(self, n):
        for _ in range(n):
            at = torch.randint(0, len(self.y), (self.batch_size,), generator=self.g)
            if not FIXED:
                at = at.to(self.device)
            yield self.x[at].to(self.device), self.y[at].to(self.device)


class Inception(nn.Module):
    def __init__(self, i, o=16):
        super().__init__()
        self.squeeze = nn.Conv1d(i, o, 1, bias=False)
        self.branches = nn.ModuleList([nn.Conv1d(o, o, k, padding=k // 2, bias=False) for k in (9, 19, 39)])
        self.pooled = nn.Sequential(nn.MaxPool1d(3, 1, 1), nn.Conv1d(i, o, 1, bias=False))
        self.norm = nn.BatchNorm1d(4 * o)

    def forward(self, x):
        s = self.squeeze(x)
        return torch.relu(self.norm(torch.cat([b(s) for b in self.branches] + [self.pooled(x)], 1)))


class InceptionTime(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Inception(GATES), Inception(64), Inception(64))
        self.out = nn.Linear(64, 2)

    def forward(self, x):
        return self.out(self.blocks(x).mean(-1))


model = InceptionTime().cuda()
windows = Windows(*record())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(3):
    for x, y in windows.sample(15):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, loss.item())
