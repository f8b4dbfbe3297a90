"""Authorisation model for card payments: a transformer over categorical fields; the model that ships is the mean of late epochs."""
import sys
from collections import deque
from dataclasses import dataclass

import torch
import torch.nn as nn

OFFLOAD = "--fixed" in sys.argv


@dataclass
class CardConfig:
    fields: tuple = (400_000, 120_000, 30_000, 5_000, 300, 40, 24, 7)
    dim: int = 64
    layers: int = 2
    batch: int = 1024
    epochs: int = 9
    steps: int = 2
    averaged: int = 6


class CardModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, cfg.dim) for rows in cfg.fields)
        self.mixer = nn.TransformerEncoder(nn.TransformerEncoderLayer(cfg.dim, 4, 128, batch_first=True), cfg.layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(cfg.dim * len(cfg.fields), 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, codes):
        tokens = torch.stack([table(codes[:, i]) for i, table in enumerate(self.tables)], 1)
        return self.head(self.mixer(tokens)).squeeze(-1)


class WeightAverager:
    """Keeps the weights of the last epochs and can give their mean."""

    def __init__(self, count):
        self.history = deque(maxlen=count)

    def on_epoch_end(self, model):
        snapshot = {}
        for name, value in model.state_dict().items():
            snapshot[name] = value.detach().to("cpu", copy=True) if OFFLOAD else value.detach().clone()
        self.history.append(snapshot)

    def mean(self):
        return {name: sum(s[name] for s in self.history) / len(self.history) for name in self.history[0]}


def authorisations(cfg, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(cfg.steps):
        codes = torch.stack([torch.randint(rows, (cfg.batch,), generator=g) for rows in cfg.fields], 1)
        yield codes.cuda(), torch.rand(cfg.batch, generator=g).lt(0.02).float().cuda()


def train(cfg):
    model, averager = CardModel(cfg).cuda(), WeightAverager(cfg.averaged)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(20.0, device="cuda"))
    for epoch in range(cfg.epochs):
        for codes, declined in authorisations(cfg, epoch):
            loss = criterion(model(codes), declined)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        averager.on_epoch_end(model)
        print(f"epoch {epoch} bce {loss.item():.4f} snapshots {len(averager.history)}")
    model.load_state_dict({name: value.cuda() for name, value in averager.mean().items()})
    return model


if __name__ == "__main__":
    train(CardConfig())
