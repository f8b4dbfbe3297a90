"""Iterative magnitude pruning (lottery tickets) of a ConvMixer; keeps every round's ticket to compare them at the end."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
ROUNDS, STEPS, CLASSES = 8, 4, 100


class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return self.fn(x) + x


def conv_mixer(dim=1280, depth=9, kernel=5, patch=8):
    return nn.Sequential(
        nn.Conv2d(3, dim, patch, patch), nn.GELU(), nn.BatchNorm2d(dim),
        *[nn.Sequential(
            Residual(nn.Sequential(nn.Conv2d(dim, dim, kernel, groups=dim, padding="same"), nn.GELU(), nn.BatchNorm2d(dim))),
            nn.Conv2d(dim, dim, 1), nn.GELU(), nn.BatchNorm2d(dim)) for _ in range(depth)],
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(dim, CLASSES))


class Pruner:
    def __init__(self, model, rate=0.2):
        self.model, self.rate, self.kept = model, rate, 1.0
        self.weights = {n: p for n, p in model.named_parameters() if p.dim() == 4 and p.shape[1] > 1}
        self.masks = {n: torch.ones_like(p, dtype=torch.bool) for n, p in self.weights.items()}
        self.init = {n: p.detach().cpu().clone() for n, p in model.named_parameters()}
        self.tickets = []

    @torch.no_grad()
    def apply(self):
        for n, p in self.weights.items():
            p.mul_(self.masks[n])

    @torch.no_grad()
    def next_round(self):
        where = torch.device("cpu") if FIXED else next(self.model.parameters()).device
        self.tickets.append({
            "weights": {n: p.detach().to(where, copy=True) for n, p in self.model.named_parameters()},
            "masks": {n: m.to(where, copy=True) for n, m in self.masks.items()}})
        self.kept *= 1 - self.rate
        for n, p in self.weights.items():
            cut = p.abs().flatten().kthvalue(max(1, int((1 - self.kept) * p.numel()))).values
            self.masks[n] = p.abs() > cut
        for n, p in self.model.named_parameters():
            p.copy_(self.init[n])
        self.apply()


def main():
    gen = torch.Generator().manual_seed(2019)
    model = conv_mixer().cuda()
    pruner = Pruner(model)
    for r in range(ROUNDS):
        opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for _ in range(STEPS):
            x, y = torch.randn(32, 3, 32, 32, generator=gen).cuda(), torch.randint(0, CLASSES, (32,), generator=gen).cuda()
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            pruner.apply()
        print(f"round {r}: {pruner.kept:.1%} of the weights, loss {loss.item():.3f}")
        pruner.next_round()
    name = next(iter(pruner.weights))
    print("distance of tickets", [(t["weights"][name].cpu() - pruner.init[name]).norm().item() for t in pruner.tickets[:3]])


main()
