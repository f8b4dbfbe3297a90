"""Grid operator: encoder over one week of hourly load and weather that predicts the next day."""
import sys

import numpy as np
import torch
import torch.nn as nn


def load_history(hours=3000, columns=9):
    """As it comes from the data warehouse: a float64 array."""
    gen = torch.Generator().manual_seed(1)
    return np.cumsum(torch.randn(hours, columns, generator=gen).numpy().astype(np.float64), 0)


class WeekDataset(torch.utils.data.Dataset):
    def __init__(self, table, context=168, horizon=24):
        mean, std = table.mean(0), table.std(0)
        self.table, self.context, self.horizon = (table - mean) / std, context, horizon

    def __len__(self):
        return len(self.table) - self.context - self.horizon

    def __getitem__(self, i):
        j = i + self.context
        return torch.from_numpy(self.table[i:j]), torch.from_numpy(self.table[j:j + self.horizon, 0])


class LoadNet(nn.Module):
    def __init__(self, columns=9, d=384, layers=6, horizon=24):
        super().__init__()
        self.inp = nn.Linear(columns, d)
        self.pos = nn.Parameter(torch.zeros(1, 168, d))
        layer = nn.TransformerEncoderLayer(d, 6, 4 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(d, horizon)

    def forward(self, x):
        return self.out(self.enc(self.inp(x) + self.pos)[:, -1])


class Fitter:
    def __init__(self, model, loader, lr=1e-4):
        self.model, self.loader, self.lr = model.cuda(), loader, lr

    def match(self, x, y):
        """RuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float"""
        if "--fixed" in sys.argv:
            return x.float(), y.float()
        self.model.to(x.dtype)
        return x, y

    def fit(self, steps=8):
        opt = None
        for step, (x, y) in zip(range(steps), self.loader):
            x, y = self.match(x.cuda(), y.cuda())
            opt = opt or torch.optim.AdamW(self.model.parameters(), lr=self.lr)
            loss = nn.functional.l1_loss(self.model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(step, loss.item())


loader = torch.utils.data.DataLoader(WeekDataset(load_history()), batch_size=48, shuffle=True, drop_last=True)
Fitter(LoadNet(), loader).fit()
