"""Continues the training of a hearing-test scorer (medical device): a conformer, resumed from last night's file."""
import os
import sys
import tempfile
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class ScorerConfig:
    mels: int = 64
    dim: int = 576
    layers: int = 6
    heads: int = 8
    words: int = 120
    map_location: str = "cpu" if "--fixed" in sys.argv else "cuda"


class ConformerBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(4))
        self.ff1, self.ff2 = (nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim)) for _ in range(2))
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.pointwise, self.depthwise = nn.Conv1d(dim, 2 * dim, 1), nn.Conv1d(dim, dim, 15, padding=7, groups=dim)

    def forward(self, x):
        x = x + 0.5 * self.ff1(self.norms[0](x))
        h = self.norms[1](x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        h = nn.functional.glu(self.pointwise(self.norms[2](x).transpose(1, 2)), dim=1)
        x = x + self.depthwise(h).transpose(1, 2)
        return x + 0.5 * self.ff2(self.norms[3](x))


class WordScorer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Linear(cfg.mels, cfg.dim)
        self.blocks = nn.Sequential(*(ConformerBlock(cfg.dim, cfg.heads) for _ in range(cfg.layers)))
        self.out = nn.Linear(cfg.dim, cfg.words)

    def forward(self, mels):
        return self.out(self.blocks(self.inp(mels)).mean(1))


class TrainingRun:
    def __init__(self, cfg, path):
        self.cfg = cfg
        self.checkpoint = torch.load(path, map_location=cfg.map_location)
        self.model = WordScorer(cfg).cuda()
        self.model.load_state_dict(self.checkpoint["model"])
        self.first_epoch = self.checkpoint["epoch"] + 1
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.checkpoint["lr"], fused=True)

    def epochs(self, count):
        g = torch.Generator().manual_seed(self.first_epoch)
        for epoch in range(self.first_epoch, self.first_epoch + count):
            for _ in range(4):
                mels, word = torch.randn(4, 100, self.cfg.mels, generator=g), torch.randint(self.cfg.words, (4,), generator=g)
                loss = nn.functional.cross_entropy(self.model(mels.cuda()), word.cuda())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            print("epoch", epoch, "loss", loss.item())


def last_night(cfg, path):
    model = WordScorer(cfg)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    torch.save({"model": weights, "ema": {k: v * 0.99 for k, v in weights.items()}, "best": {k: v + 0 for k, v in weights.items()},
                "epoch": 41, "lr": 2e-4, "best_accuracy": 0.913}, path)


if __name__ == "__main__":
    cfg = ScorerConfig()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        last_night(cfg, path)
        TrainingRun(cfg, path).epochs(3)
