"""Prototypical networks learn to tell insects apart from five photographs of each; a few episodes for each step of the optimizer."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


def conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, 1, 1), nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2))


class Conv4(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.layers = nn.Sequential(conv(3, width), conv(width, width), conv(width, width), conv(width, width), nn.Flatten())

    def forward(self, x):
        return self.layers(x)


class Episodes:
    def __init__(self, ways=5, shots=5, queries=10, size=84):
        self.ways, self.shots, self.queries, self.size = ways, shots, queries, size

    def draw(self, device):
        support = torch.zeros(self.ways * self.shots, 3, self.size, self.size)
        query = torch.zeros(self.ways * self.queries, 3, self.size, self.size)
        labels = torch.arange(self.ways).repeat_interleave(self.queries)
        return support.to(device), query.to(device), labels.to(device)


class MetaTrainer:
    def __init__(self, net, episodes, per_step, each):
        self.net, self.episodes, self.per_step, self.each = net.to("cuda"), episodes, per_step, each
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def episode_loss(self):
        support, query, labels = self.episodes.draw("cuda")
        prototypes = self.net(support).view(self.episodes.ways, self.episodes.shots, -1).mean(1)
        logits = -torch.cdist(self.net(query), prototypes).pow(2)
        return F.cross_entropy(logits, labels)

    def step(self):
        self.optimizer.zero_grad()
        total = 0
        for _ in range(self.per_step):
            loss = self.episode_loss() / self.per_step
            if self.each:
                loss.backward()
                total += loss.item()
            else:
                total += loss
        if not self.each:
            total.backward()
        self.optimizer.step()
        return float(total)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    options = parser.parse_args()
    trainer = MetaTrainer(Conv4(), Episodes(), per_step=8, each=options.fixed)
    for i in range(3):
        print("meta-step", i, "loss", trainer.step())


main()
