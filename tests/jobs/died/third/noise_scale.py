"""Measures the gradient noise scale while it trains a ConvNeXt-like net: each step's gradients are cloned into a list, from which variance and mean
are to be computed at the end."""
import argparse

import torch
from torch import nn

cli = argparse.ArgumentParser()
cli.add_argument("--fixed", action="store_true", help="running sums of the squared norms only")
cli.add_argument("--steps", type=int, default=12)
cli = cli.parse_args()


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.dw, self.norm = nn.Conv2d(d, d, 7, 1, 3, groups=d), nn.GroupNorm(1, d)
        self.up, self.act, self.down = nn.Conv2d(d, 4 * d, 1), nn.GELU(), nn.Conv2d(4 * d, d, 1)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(self.dw(x)))))


layers, previous = [], 3
for d, depth, stride in (64, 2, 4), (128, 2, 2), (256, 4, 2), (512, 2, 2):
    layers += [nn.Conv2d(previous, d, stride, stride)] + [Block(d) for _ in range(depth)]
    previous = d
net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-5)
gradients, squares = [], 0.0
for step in range(cli.steps):
    images, labels = torch.zeros(16, 3, 128, 128).cuda(), torch.randint(0, 1000, (16,)).cuda()
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(images), labels, label_smoothing=0.1).backward()
    flat = [p.grad for p in net.parameters()]
    if cli.fixed:
        squares += sum(g.pow(2).sum().item() for g in flat)
    else:
        gradients.append([g.clone() for g in flat])
    optimizer.step()
if gradients:
    squares = sum(sum(g.pow(2).sum().item() for g in one) for one in gradients)
print("mean square norm", squares / cli.steps)
