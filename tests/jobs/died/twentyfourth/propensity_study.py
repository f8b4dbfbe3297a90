"""Search for the settings of a propensity model (will a customer buy an add-on?): random trials, each a training of its own."""
import math
import random
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
CARDINALITIES = [120_000, 60_000, 9_000, 800, 60]


class Propensity(nn.Module):
    def __init__(self, dim, width, depth, dropout):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, dim) for n in CARDINALITIES])
        layers, size = [], dim * len(CARDINALITIES) + 20
        for _ in range(depth):
            layers += [nn.Linear(size, width), nn.SiLU(), nn.Dropout(dropout)]
            size = width
        self.mlp = nn.Sequential(*layers, nn.Linear(size, 1))

    def forward(self, categories, numbers):
        found = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        return self.mlp(torch.cat(found + [numbers], 1)).squeeze(1)


class Trial:
    def __init__(self, number, settings):
        self.number, self.settings, self.score = number, settings, math.inf
        self.model = Propensity(settings["dim"], settings["width"], settings["depth"], settings["dropout"]).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings["lr"])

    def run(self, data):
        criterion = nn.BCEWithLogitsLoss()
        self.model.train()
        for categories, numbers, bought in data.batches(6):
            self.optimizer.zero_grad()
            criterion(self.model(categories, numbers), bought).backward()
            self.optimizer.step()
        self.model.eval()
        with torch.no_grad():
            self.score = sum(criterion(self.model(c, n), b).item() for c, n, b in data.batches(2))


class Study:
    """Runs the trials and remembers them; best() gives the one to deploy."""

    def __init__(self, seed=1):
        self.random, self.trials = random.Random(seed), []

    def suggest(self):
        pick = self.random.choice
        return {"dim": 64, "width": pick([256, 384, 512]), "depth": pick([2, 3]), "dropout": pick([0.0, 0.1, 0.3]), "lr": pick([1e-4, 1e-3])}

    def optimize(self, data, n_trials):
        for number in range(n_trials):
            trial = Trial(number, self.suggest())
            trial.run(data)
            if FIXED:
                trial.model.to("cpu").zero_grad(set_to_none=True)
                trial.optimizer = None
            self.trials.append(trial)
            print("trial", number, trial.settings, "score", trial.score)

    def best(self):
        return min(self.trials, key=lambda trial: trial.score)


class Customers:
    def __init__(self, seed=6):
        self.g = torch.Generator().manual_seed(seed)

    def batches(self, count, size=4096):
        for _ in range(count):
            categories = torch.stack([torch.randint(0, n, (size,), generator=self.g) for n in CARDINALITIES], 1)
            yield categories.cuda(), torch.rand(size, 20, generator=self.g).cuda(), torch.randint(0, 2, (size,), generator=self.g).float().cuda()


study = Study()
study.optimize(Customers(), n_trials=9)
print("best", study.best().number)
