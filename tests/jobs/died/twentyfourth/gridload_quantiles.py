"""Probabilistic forecast of the load of transformer stations: a week by the hour, 21 quantiles, checked for its coverage."""
import sys

import torch
import torch.nn as nn
import torchmetrics

HISTORY, HORIZON = 336, 168
QUANTILES = torch.linspace(0.025, 0.975, 21)


class Coverage(torchmetrics.Metric):
    """How often the load lies below each forecast quantile."""
    full_state_update = False

    def __init__(self):
        super().__init__()
        self.add_state("forecasts", default=[], dist_reduce_fx="cat")
        self.add_state("loads", default=[], dist_reduce_fx="cat")

    def update(self, forecast, load):
        self.forecasts.append(forecast)
        self.loads.append(load)

    def compute(self):
        below = [(load[..., None] <= forecast).float().mean((0, 1)) for forecast, load in zip(self.forecasts, self.loads)]
        return torch.stack(below).mean(0)


class RunningCoverage(torchmetrics.Metric):
    full_state_update = False

    def __init__(self):
        super().__init__()
        self.add_state("below", default=torch.zeros(len(QUANTILES)), dist_reduce_fx="sum")
        self.add_state("count", default=torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, forecast, load):
        self.below += (load[..., None] <= forecast).float().sum((0, 1))
        self.count += load.numel()

    def compute(self):
        return self.below / self.count


class Station(nn.Module):
    def __init__(self, width=384):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(HISTORY, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.head = nn.Linear(width, HORIZON * len(QUANTILES))

    def forward(self, history):
        return self.head(self.trunk(history)).view(-1, HORIZON, len(QUANTILES))


def pinball(forecast, load, q):
    error = load[..., None] - forecast
    return torch.maximum(q * error, (q - 1) * error).mean()


def stations(batches, size, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        window = torch.rand(size, HISTORY + HORIZON, generator=generator)
        yield window[:, :HISTORY].cuda(), window[:, HISTORY:].cuda()


def main():
    model, q = Station().cuda(), QUANTILES.cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    coverage = (RunningCoverage() if "--fixed" in sys.argv else Coverage()).cuda()
    for epoch in range(3):
        model.train()
        for history, load in stations(10, 256, seed=epoch):
            loss = pinball(model(history), load, q)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.inference_mode():
            for history, load in stations(60, 1536, seed=99):
                coverage.update(model(history), load)
        values = coverage.compute().cpu()
        coverage.reset()
        print(f"epoch {epoch} pinball {loss.item():.4f} median covered {values[10]:.3f}")


main()
