"""Demand per store and article for the replenishment team: a gated recurrent encoder over windows of 90 days, quantile loss."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

QUANTILES = (0.1, 0.5, 0.9)


class DemandWindows(Dataset):
    """Windows of `past` days with the `ahead` days after them, for each series, one window every second day."""

    def __init__(self, history, past, ahead, device=None):
        windows = history.unfold(1, past + ahead, 2).permute(0, 1, 3, 2)
        if device is not None:
            windows = windows.contiguous().to(device)
        self.windows, self.past = windows, past
        self.per_series = windows.shape[1]

    def __len__(self):
        return self.windows.shape[0] * self.per_series

    def __getitem__(self, index):
        window = self.windows[index // self.per_series, index % self.per_series]
        return window[: self.past], window[self.past:, 0]


class GatedResidual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.inner, self.gate, self.norm = nn.Sequential(nn.Linear(dim, dim), nn.ELU()), nn.Linear(dim, 2 * dim), nn.LayerNorm(dim)

    def forward(self, x):
        return self.norm(x + nn.functional.glu(self.gate(self.inner(x))))


class DemandModel(nn.Module):
    def __init__(self, features, ahead, dim=128):
        super().__init__()
        self.inp, self.grn = nn.Linear(features, dim), GatedResidual(dim)
        self.rnn = nn.LSTM(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, ahead * len(QUANTILES))

    def forward(self, past):
        _, (h, _) = self.rnn(self.grn(self.inp(past)))
        return self.out(h[-1]).unflatten(-1, (-1, len(QUANTILES)))


def pinball(forecast, actual):
    error = actual.unsqueeze(-1) - forecast
    q = torch.tensor(QUANTILES, device=error.device)
    return torch.maximum(q * error, (q - 1) * error).mean()


def main(fixed):
    history = torch.randn(1500, 560, 8, generator=torch.Generator().manual_seed(2)).relu()
    data = DemandWindows(history, 76, 14, device=None if fixed else "cuda")
    model = DemandModel(8, 14).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(data, batch_size=256, shuffle=True)
    for step, (past, ahead) in zip(range(15), loader):
        loss = pinball(model(past.cuda()), ahead.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print("step", step, "pinball", loss.item())


main("--fixed" in sys.argv)
