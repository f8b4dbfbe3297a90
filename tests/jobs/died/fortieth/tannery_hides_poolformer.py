"""Grades of hides at the tannery. PoolFormer written after the paper; the inspector measures it every half epoch."""
import contextlib
import sys
from dataclasses import dataclass

import torch
from torch import nn

FIXED = "--fixed" in sys.argv


@dataclass
class Settings:
    grades: int = 6
    side: int = 256
    train_batch: int = 12
    check_batch: int = 40
    rounds: int = 2
    steps: int = 5


class PoolBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(1, d), nn.GroupNorm(1, d)
        self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        self.mlp = nn.Sequential(nn.Conv2d(d, 4 * d, 1), nn.GELU(), nn.Conv2d(4 * d, d, 1))

    def forward(self, x):
        y = self.n1(x)
        x = x + self.pool(y) - y
        return x + self.mlp(self.n2(x))


def poolformer(s, widths=(48, 96, 192), depths=(2, 2, 4)):
    layers, before = [], 3
    for k, (w, d) in enumerate(zip(widths, depths)):
        layers.append(nn.Conv2d(before, w, 7 if k == 0 else 3, 4 if k == 0 else 2, 2 if k == 0 else 1))
        layers += [PoolBlock(w) for _ in range(d)]
        before = w
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, s.grades))


class HideRolls:
    def __init__(self, s, seed):
        self.s, self.gen = s, torch.Generator().manual_seed(seed)

    def draw(self, n):
        return torch.rand(n, 3, self.s.side, self.s.side, generator=self.gen), torch.randint(self.s.grades, (n,), generator=self.gen)


class Inspector:
    """Agreement with the foreman, in percent."""

    def __init__(self, model, rolls, batches=4):
        self.model, self.rolls, self.batches = model, rolls, batches

    def quiet(self):
        return torch.no_grad() if FIXED else contextlib.nullcontext()

    def measure(self):
        self.model.eval()
        agree = seen = 0
        with self.quiet():
            for _ in range(self.batches):
                hides, grades = self.rolls.draw(self.rolls.s.check_batch)
                scores = self.model(hides.cuda())
                agree += (scores.argmax(1).cpu() == grades).sum().item()
                seen += len(grades)
        self.model.train()
        return 100 * agree / seen


def main():
    s = Settings()
    model = poolformer(s).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05)
    rolls, inspector = HideRolls(s, 0), Inspector(model, HideRolls(s, 1))
    for r in range(s.rounds):
        for _ in range(s.steps):
            hides, grades = rolls.draw(s.train_batch)
            loss = nn.functional.cross_entropy(model(hides.cuda()), grades.cuda(), label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("round", r, "loss", loss.item(), "agreement", inspector.measure())


main()
