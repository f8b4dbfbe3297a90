"""Estimates prices of used laptops from a table of numbers and categories; the whole table is small enough for large batches."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = "--fixed" in sys.argv
ROWS, NUMBERS, BATCH = 49152, 24, 12288
CATEGORIES = {"maker": 60, "cpu": 900, "gpu": 400, "condition": 6}


class Prices(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(n, min(32, n // 2)) for n in CATEGORIES.values())
        inputs = NUMBERS + sum(e.embedding_dim for e in self.embeddings)
        self.net = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.BatchNorm1d(width), nn.Dropout(0.1),
                                 nn.Linear(width, width), nn.ReLU(), nn.BatchNorm1d(width), nn.Linear(width, 1))

    def forward(self, numbers, categories):
        parts = [e(categories[:, n]) for n, e in enumerate(self.embeddings)]
        return self.net(torch.cat([numbers, *parts], 1))


def table():
    torch.manual_seed(5)
    numbers = torch.randn(ROWS, NUMBERS)
    categories = torch.stack([torch.randint(0, n, (ROWS,)) for n in CATEGORIES.values()], 1)
    return TensorDataset(numbers, categories, torch.rand(ROWS).log1p())


def fit(model, data, epochs):
    loader = DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=epochs * len(loader))
    criterion = nn.MSELoss()
    for epoch in range(epochs):
        total = 0.0
        for numbers, categories, price in loader:
            out = model(numbers.cuda(), categories.cuda())
            loss = criterion(out.squeeze(1) if FIXED else out, price.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item()
        print("epoch", epoch, "rmse", (total / len(loader)) ** 0.5)


fit(Prices().cuda(), table(), 2)
