"""Predicts cancelled bookings from wide tables of one-hot columns with a plain network of linear layers."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv


@dataclass
class Settings:
    rows: int = 120_000
    columns: int = 1_600
    hidden: int = 512
    depth: int = 4
    batch: int = 2_048
    steps: int = 20
    lr: float = 2e-3


def table(settings):
    """The table as it comes from the preprocessing, with all columns one-hot already."""
    return torch.zeros(settings.rows, settings.columns), torch.zeros(settings.rows)


def network(settings):
    sizes = [settings.columns] + [settings.hidden] * settings.depth
    layers = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after), nn.LayerNorm(after), nn.SiLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(settings.hidden, 1))


def main():
    settings = Settings()
    features, cancelled = table(settings)
    if not FIXED:
        features, cancelled = features.cuda(), cancelled.cuda()
    model = network(settings).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr)
    criterion = nn.BCEWithLogitsLoss()
    generator = torch.Generator().manual_seed(3)
    model.train()
    for step in range(settings.steps):
        rows = torch.randint(0, settings.rows, (settings.batch,), generator=generator)
        rows = rows.to(features.device)
        x, y = features[rows].cuda(), cancelled[rows].cuda()
        loss = criterion(model(x).squeeze(1), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        wrong = 0
        for start in range(0, 16_384, 4_096):
            predicted = model(features[start:start + 4_096].cuda()).squeeze(1) > 0
            wrong += int((predicted.cpu() != (cancelled[start:start + 4_096].cpu() > 0.5)).sum())
    print("wrong of 16384:", wrong)


main()
