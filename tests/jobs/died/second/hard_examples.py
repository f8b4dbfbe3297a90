"""Hard example mining for a classifier of X-ray images: those with the largest loss are set aside and replayed.

After https://github.com/ContinualAI/avalanche/issues/1106 and https://github.com/cpnota/autonomous-learning-library/issues/144
"""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseBlock(nn.Module):
    def __init__(self, cin, growth, count):
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.BatchNorm2d(cin + i * growth), nn.ReLU(), nn.Conv2d(cin + i * growth, growth, 3, padding=1))
                                     for i in range(count)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


class XrayNet(nn.Module):
    def __init__(self, classes=14):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 32, 7, 4, 3), DenseBlock(32, 16, 4), nn.Conv2d(96, 64, 1), nn.AvgPool2d(2),
                                  DenseBlock(64, 32, 4), nn.Conv2d(192, 128, 1), nn.AvgPool2d(2), DenseBlock(128, 32, 4))
        self.head = nn.Linear(256, classes)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class HardExamples:
    def __init__(self, limit=None):
        self.kept, self.limit = [], limit

    def add(self, images, labels, losses, share=0.5):
        worst = losses.detach().topk(int(share * len(losses))).indices
        self.kept.append((images[worst], labels[worst]))
        if self.limit:
            self.kept = self.kept[-self.limit:]

    def draw(self):
        return random.choice(self.kept)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    net, mined = XrayNet().cuda(), HardExamples(2 if args.fixed else None)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    for step in range(12):
        images, labels = torch.zeros(48, 1, 1024, 1024).cuda(), torch.zeros(48, 14).cuda()
        losses = F.binary_cross_entropy_with_logits(net(images[:, :, ::4, ::4]), labels, reduction="none").mean(1)
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
        mined.add(images, labels, losses)
        images, labels = mined.draw()
        again = F.binary_cross_entropy_with_logits(net(images[:, :, ::4, ::4]), labels)
        optimizer.zero_grad()
        again.backward()
        optimizer.step()
        print(step, losses.mean().item(), again.item())


if __name__ == "__main__":
    main()
