"""Cosine annealing with warm restarts: each cycle begins with a new optimizer, and the history of cycles is kept for the report.

After https://github.com/optuna/optuna/issues/1224
"""
import dataclasses
import sys

import torch
import torch.nn as nn


@dataclasses.dataclass
class Cycle:
    number: int
    optimizer: torch.optim.Optimizer
    scheduler: object
    losses: list


class Tagger(nn.Module):
    """Tags of words: embeddings, two bidirectional LSTM layers, a linear layer."""

    def __init__(self, words=60000, dim=384, hidden=512, tags=50):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.lstm = nn.LSTM(dim, hidden, 2, bidirectional=True, batch_first=True, dropout=0.3)
        self.tags = nn.Linear(2 * hidden, tags)

    def forward(self, words):
        return self.tags(self.lstm(self.embed(words))[0])


def begin(number, model, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3 * 0.8 ** number)
    return Cycle(number, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps), [])


def run(model, cycle, steps, fixed):
    for _ in range(steps):
        words, tags = torch.randint(60000, (32, 40)).cuda(), torch.randint(50, (32, 40)).cuda()
        loss = nn.functional.cross_entropy(model(words).flatten(0, 1), tags.flatten())
        cycle.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        cycle.optimizer.step()
        cycle.scheduler.step()
        cycle.losses.append(loss.item())
    if fixed:
        cycle.optimizer = cycle.scheduler = None
    return cycle


def main():
    model, history = Tagger().cuda(), []
    for number in range(4):
        history.append(run(model, begin(number, model, 3), 3, "--fixed" in sys.argv))
        print("cycle", number, "loss", sum(history[-1].losses) / 3)
    best = min(history, key=lambda c: min(c.losses))
    print("best cycle", best.number)


main()
