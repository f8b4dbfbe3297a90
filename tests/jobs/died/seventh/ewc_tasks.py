"""Continual learning on a sequence of tasks: later tasks are held near to the weights that earlier ones need."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv


class MLPMixer(nn.Module):
    def __init__(self, patches=64, dim=256, layers=6, classes=10):
        super().__init__()
        self.embed = nn.Linear(48, dim)
        def mlp(size, inner):
            return nn.Sequential(nn.LayerNorm(size), nn.Linear(size, inner), nn.GELU(), nn.Linear(inner, size))
        self.tokens, self.channels = (nn.ModuleList(mlp(*sizes) for _ in range(layers)) for sizes in ((patches, 128), (dim, 1024)))
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.embed(x)
        for token, channel in zip(self.tokens, self.channels):
            x = x + token(x.transpose(1, 2)).transpose(1, 2)
            x = x + channel(x)
        return self.head(x.mean(1))


class ElasticWeights:
    """The penalty of elastic weight consolidation."""

    def __init__(self, model, strength=100.0):
        self.model, self.strength = model, strength
        self.memories = []

    def penalty(self):
        loss = 0.0
        for centre, fisher in self.memories:
            for p, c, f in zip(self.model.parameters(), centre, fisher):
                loss = loss + (f * (p - c) ** 2).sum()
        return self.strength * loss

    def consolidate(self, samples):
        self.model.eval()
        squares = []
        for x, y in samples:
            self.model.zero_grad()
            log_likelihood = self.model(x.unsqueeze(0)).log_softmax(-1)[0, y]
            log_likelihood.backward()
            grads = [p.grad.detach().clone() ** 2 for p in self.model.parameters()]
            if FIXED and squares:
                for total, g in zip(squares[0], grads):
                    total += g
            else:
                squares.append(grads)
        fisher = [sum(parts) / len(samples) for parts in zip(*squares)]
        self.memories = [([p.detach().clone() for p in self.model.parameters()], fisher)]
        self.model.zero_grad()
        self.model.train()


def task(n, batches=6, size=128):
    generator = torch.Generator().manual_seed(n)
    for _ in range(batches):
        yield torch.zeros(size, 64, 48).cuda(), torch.randint(0, 10, (size,), generator=generator).cuda()


def main():
    model = MLPMixer().cuda()
    elastic = ElasticWeights(model)
    for n in range(3):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        for x, y in task(n):
            loss = nn.functional.cross_entropy(model(x), y) + elastic.penalty()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        x, _ = next(task(n, 1, 100))
        elastic.consolidate([(row, k % 10) for k, row in enumerate(x)])
        print("task", n, "done, loss", loss.item())


main()
