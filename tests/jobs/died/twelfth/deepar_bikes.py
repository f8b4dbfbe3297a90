"""Forecasts rented bikes per station with a DeepAR-like LSTM; the validation draws many futures of each station and reports quantiles."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
STATIONS, COVARIATES, PAST, AHEAD, HIDDEN, LAYERS = 256, 8, 96, 24, 96, 2
PATHS = 400


class DeepAR(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [1 + COVARIATES, *[HIDDEN] * (LAYERS - 1)]
        self.cells = nn.ModuleList(nn.LSTMCell(n, HIDDEN) for n in sizes)
        self.mean, self.scale = nn.Linear(HIDDEN, 1), nn.Linear(HIDDEN, 1)

    def start(self, n):
        return [(torch.zeros(n, HIDDEN, device="cuda"), torch.zeros(n, HIDDEN, device="cuda")) for _ in self.cells]

    def step(self, x, state):
        after = []
        for cell, s in zip(self.cells, state):
            h, c = cell(x, s)
            after.append((h, c))
            x = h
        return self.mean(x).squeeze(-1), nn.functional.softplus(self.scale(x)).squeeze(-1) + 1e-3, after

    def likelihood(self, bikes, covariates):
        state, losses = self.start(len(bikes)), []
        for t in range(bikes.shape[1] - 1):
            mean, scale, state = self.step(torch.cat([bikes[:, t:t + 1], covariates[:, t]], -1), state)
            losses.append(0.5 * ((bikes[:, t + 1] - mean) / scale) ** 2 + scale.log())
        return torch.stack(losses).mean()

    def futures(self, bikes, covariates, paths):
        """Draws PATHS futures of each station."""
        bikes, covariates = bikes.repeat_interleave(paths, 0), covariates.repeat_interleave(paths, 0)
        state, drawn = self.start(len(bikes)), []
        for t in range(PAST + AHEAD - 1):
            x = bikes[:, t] if t < PAST else drawn[-1]
            mean, scale, state = self.step(torch.cat([x[:, None], covariates[:, t]], -1), state)
            if t >= PAST - 1:
                drawn.append(mean + scale * torch.randn_like(mean))
        return torch.stack(drawn, 1).unflatten(0, (-1, paths))


def batch():
    return torch.rand(STATIONS, PAST + AHEAD).cuda(), torch.rand(STATIONS, PAST + AHEAD, COVARIATES).cuda()


@torch.no_grad()
def validate(model):
    bikes, covariates = batch()
    results = []
    for part, known in zip(bikes.split(16), covariates.split(16)) if FIXED else [(bikes, covariates)]:
        paths = model.futures(part[:, :PAST], known, PATHS).sort(1).values
        results.append(torch.stack([paths[:, int(q * PATHS)] for q in (0.1, 0.5, 0.9)]).cpu())
    return torch.cat(results, 1).mean((1, 2)).tolist()


model = DeepAR().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    model.train()
    for _ in range(3):
        loss = model.likelihood(*batch())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
    model.eval()
    print("epoch", epoch, "loss", loss.item(), "quantiles", validate(model))
