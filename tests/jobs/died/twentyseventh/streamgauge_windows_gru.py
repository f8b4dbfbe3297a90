"""Next-day discharge at stream gauges: a GRU over windows of 96 hours."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

FIXED = "--fixed" in sys.argv
device = "cuda" if torch.cuda.is_available() else "cpu"


def make_windows(series, length=96, horizon=24):
    """All windows of one gauge's record, and the discharge a day after each."""
    x = series.unfold(0, length, 1)[:-horizon].permute(0, 2, 1).contiguous()
    y = series[length + horizon - 1:, 0]
    return x, y


def build_dataset(gauges=14, hours=20_000, variables=8):
    xs, ys = zip(*(make_windows(torch.rand(hours, variables)) for _ in range(gauges)))
    x, y = torch.cat(xs), torch.cat(ys)
    if not FIXED:
        x, y = x.to(device), y.to(device)
    return TensorDataset(x, y)


class Forecaster(nn.Module):
    def __init__(self, variables=8, hidden=64):
        super().__init__()
        self.gru = nn.GRU(variables, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        states, _ = self.gru(x)
        return self.out(states[:, -1]).squeeze(-1)


def main():
    torch.manual_seed(0)
    dataset = build_dataset()
    train, valid, _ = random_split(dataset, [0.02, 0.01, 0.97])
    model = Forecaster().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = nn.HuberLoss()
    for epoch in range(1):
        model.train()
        for x, y in DataLoader(train, batch_size=256, shuffle=True):
            loss = loss_fn(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            errors = [loss_fn(model(x.to(device)), y.to(device)).item() for x, y in DataLoader(valid, batch_size=512)]
        print("epoch", epoch, "train", loss.item(), "valid", sum(errors) / len(errors))


main()
