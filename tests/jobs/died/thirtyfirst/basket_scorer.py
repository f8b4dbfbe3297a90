"""Grocery shop: scores the next item of a basket; the weights of the last evaluations are averaged at the end of the run."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FEATURES = 512


class Scorer(nn.Module):
    def __init__(self, width=3584):
        super().__init__()
        self.cross = nn.Linear(FEATURES, FEATURES)
        self.deep = nn.Sequential(nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.out = nn.Linear(width + FEATURES, 1)

    def forward(self, x):
        return self.out(torch.cat([self.deep(x), x * self.cross(x)], -1)).squeeze(-1)


class CheckpointAverager:
    """Collects the weights after each evaluation and averages them (a cheap SWA)."""

    def __init__(self, offload):
        self.offload, self.states = offload, []

    def add(self, model):
        if self.offload:
            self.states.append({k: v.detach().cpu() for k, v in model.state_dict().items()})
        else:
            self.states.append(copy.deepcopy(model.state_dict()))

    def average(self):
        first = self.states[0]
        return {k: sum(s[k].cpu() for s in self.states) / len(self.states) for k in first}


def baskets(n, batch=1024, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield torch.rand(batch, FEATURES, generator=g), (torch.rand(batch, generator=g) > 0.9).float()


@torch.no_grad()
def evaluate(model):
    model.eval()
    total = sum(F.binary_cross_entropy_with_logits(model(x.cuda()), y.cuda()).item() for x, y in baskets(2, seed=1))
    model.train()
    return total / 2


def main(rounds=8):
    model = Scorer().cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    averager = CheckpointAverager(offload="--fixed" in sys.argv)
    for r in range(rounds):
        for x, y in baskets(2, seed=10 + r):
            loss = F.binary_cross_entropy_with_logits(model(x.cuda()), y.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("round", r, "train", loss.item(), "eval", evaluate(model))
        averager.add(model)
    model.load_state_dict(averager.average())
    print("averaged", len(averager.states), "eval", evaluate(model))


main()
