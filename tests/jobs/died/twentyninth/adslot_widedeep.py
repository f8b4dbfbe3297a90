"""Wide and deep model for the value of an ad slot; hashed identities in one table, dense features beside them."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class SlotConfig:
    buckets: int = 4_000_000
    dim: int = 32
    identities: int = 14
    dense: int = 25
    batch: int = 4096
    steps: int = 8
    table_optimizer: str = "sgd" if "--fixed" in sys.argv else "adamw"


class SlotValue(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.table = nn.EmbeddingBag(cfg.buckets, cfg.dim, mode="mean", device="cuda")
        self.wide = nn.Linear(cfg.dense, 1, device="cuda")
        self.deep = nn.Sequential(nn.Linear(cfg.dim + cfg.dense, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()

    def forward(self, identities, dense):
        return (self.wide(dense) + self.deep(torch.cat([self.table(identities), dense], 1))).squeeze(-1)

    def rest(self):
        return [*self.wide.parameters(), *self.deep.parameters()]


def make_optimizers(model, cfg):
    if cfg.table_optimizer == "adamw":
        return [torch.optim.AdamW([*model.table.parameters(), *model.rest()], lr=1e-3)]
    return [torch.optim.SGD(model.table.parameters(), lr=0.5), torch.optim.AdamW(model.rest(), lr=1e-3)]


def impressions(cfg):
    g = torch.Generator().manual_seed(44)
    for _ in range(cfg.steps):
        yield (torch.randint(cfg.buckets, (cfg.batch, cfg.identities), generator=g).cuda(),
               torch.randn(cfg.batch, cfg.dense, generator=g).cuda(), torch.rand(cfg.batch, generator=g).cuda())


def main():
    cfg = SlotConfig()
    model = SlotValue(cfg)
    optimizers = make_optimizers(model, cfg)
    for step, (identities, dense, value) in enumerate(impressions(cfg)):
        loss = nn.functional.poisson_nll_loss(model(identities, dense).clamp(max=8), value)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
