"""Handedness and moult stage of lobsters from claw photographs; a ConvNeXt-like net, the weights of the best epochs are averaged at the end."""
import sys

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.GroupNorm(1, c)
        self.up, self.down, self.gamma = nn.Conv2d(c, 4 * c, 1), nn.Conv2d(4 * c, c, 1), nn.Parameter(torch.full((c, 1, 1), 1e-5))

    def forward(self, x):
        return x + self.gamma * self.down(nn.functional.gelu(self.up(self.norm(self.dw(x)))))


def claw_net(dims=(64, 160, 384, 896), depths=(1, 2, 6, 4), classes=8):
    parts, cin = [], 3
    for i, (c, depth) in enumerate(zip(dims, depths)):
        k = 4 if i == 0 else 2
        parts += [nn.Conv2d(cin, c, k, k), *[Layer(c) for _ in range(depth)]]
        cin = c
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(cin), nn.Linear(cin, classes))


class WeightAverager:
    """Remembers the weights of each epoch with its score; average() returns the mean of the best k."""

    def __init__(self, k=3):
        self.k, self.entries = k, []

    def add(self, model, score):
        weights = {name: w.detach().clone() for name, w in model.state_dict().items()}
        if "--fixed" in sys.argv:
            weights = {name: w.cpu() for name, w in weights.items()}
        self.entries.append((score, weights))

    def average(self):
        best = sorted(self.entries, key=lambda e: -e[0])[: self.k]
        return {name: sum(w[name].float() for _, w in best) / len(best) for name in best[0][1]}


class Run:
    def __init__(self, device="cuda"):
        self.device, self.gen = device, torch.Generator().manual_seed(21)
        self.model = claw_net().to(device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=4e-3, weight_decay=0.05)
        self.averager = WeightAverager()

    def batches(self, n, size):
        for _ in range(n):
            yield torch.rand(size, 3, 160, 160, generator=self.gen).to(self.device), torch.randint(0, 8, (size,), generator=self.gen).to(self.device)

    def train(self):
        self.model.train()
        for x, y in self.batches(3, 8):
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()

    @torch.no_grad()
    def score(self):
        self.model.eval()
        return sum((self.model(x).argmax(-1) == y).float().mean().item() for x, y in self.batches(1, 8))

    def go(self, epochs=9):
        for epoch in range(epochs):
            loss, score = self.train(), self.score()
            self.averager.add(self.model, score)
            print("epoch", epoch, "loss", loss, "accuracy", score)
        self.model.load_state_dict(self.averager.average())


Run().go()
