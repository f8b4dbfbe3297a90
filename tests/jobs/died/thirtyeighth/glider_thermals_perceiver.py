"""Finds thermals in flight logs of gliders with a Perceiver. First stage: large learning rate on synthetic flights; second: real ones, small rate."""
import sys

import torch
import torch.nn as nn

KEEP_ONE = "--fixed" in sys.argv


class CrossBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.nq, self.nk, self.nm = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, q, k):
        k = self.nk(k)
        q = q + self.attn(self.nq(q), k, k, need_weights=False)[0]
        return q + self.mlp(self.nm(q))


class ThermalPerceiver(nn.Module):
    def __init__(self, d=768, latents=32, rounds=5, heads=12):
        super().__init__()
        self.embed = nn.Linear(7, d)
        self.latents = nn.Parameter(torch.randn(1, latents, d) * 0.02)
        self.cross = nn.ModuleList(CrossBlock(d, heads) for _ in range(rounds))
        self.inner = nn.ModuleList(CrossBlock(d, heads) for _ in range(rounds))
        self.out = nn.Linear(d, 4)

    def forward(self, log):
        x, z = self.embed(log), self.latents.expand(len(log), -1, -1)
        for cross, inner in zip(self.cross, self.inner):
            z = cross(z, x)
            z = inner(z, z)
        return self.out(z.mean(1))


def flights(seed, count, size=4, samples=192):
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield torch.randn(size, samples, 7, generator=g).cuda(), torch.randn(size, 4, generator=g).cuda()


class Stages:
    def __init__(self, model):
        self.model, self.log = model, []

    def optimizer_for(self, lr):
        if KEEP_ONE and self.log:
            optimizer = self.log[-1]["optimizer"]
            for group in optimizer.param_groups:
                group["lr"] = lr
            return optimizer
        return torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=0.02)

    def run(self, name, lr, seed, steps):
        optimizer = self.optimizer_for(lr)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=3)
        losses = []
        for log, target in flights(seed, steps):
            loss = nn.functional.smooth_l1_loss(self.model(log), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        self.log.append({"name": name, "optimizer": optimizer, "scheduler": scheduler, "losses": losses})
        print(name, "mean loss", sum(losses) / len(losses))


stages = Stages(ThermalPerceiver().cuda())
stages.run("synthetic", 3e-4, 1, 6)
stages.run("real", 3e-5, 2, 6)
print("rates", [entry["scheduler"].get_last_lr() for entry in stages.log])
