"""Entity embeddings for a large table; everything goes to the GPU once so that the loader is fast.

https://github.com/pytorch/pytorch/issues/22333
"""
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    """Windows over a panel of many series."""

    def __init__(self, n, device):
        self.x = torch.empty(n, 60, 256, device=device).normal_() if device == "cuda" else torch.zeros(n, 60, 256)
        self.y = torch.zeros(n, 24, device=device)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class TCN(nn.Module):
    def __init__(self, cin=256, width=512, layers=6):
        super().__init__()
        self.net = nn.Sequential(*[nn.Sequential(nn.Conv1d(cin if i == 0 else width, width, 3, padding=2 ** i, dilation=2 ** i), nn.ReLU(),
                                                 nn.Dropout(0.1)) for i in range(layers)])
        self.out = nn.Linear(width, 24)

    def forward(self, x):
        return self.out(self.net(x.transpose(1, 2)).mean(-1))


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
rows = 20000
dataset = Windows(256 if args.fixed else rows, "cpu" if args.fixed else "cuda")
loader = DataLoader(dataset, batch_size=32, shuffle=True)
model = TCN().cuda()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for i, (x, y) in enumerate(loader):
    x, y = x.cuda(), y.cuda()
    loss = nn.functional.l1_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i == 7:
        break
print(loss.item())
