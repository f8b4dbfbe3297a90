"""A snapshot ensemble: the weights after each cycle of the learning rate are kept, and averaged at the end.

https://github.com/pytorch/pytorch/pull/35032
"""
import argparse
import copy

import torch
import torch.nn as nn


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class WideNet(nn.Module):
    def __init__(self, k=10):
        super().__init__()
        widths = [16, 16 * k, 32 * k, 64 * k]
        self.body = nn.Sequential(conv(3, 16), *[nn.Sequential(conv(a, b, s), conv(b, b), conv(b, b))
                                                 for a, b, s in zip(widths, widths[1:], (1, 2, 2))])
        self.fc = nn.Linear(64 * k, 100)

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))


parser = argparse.ArgumentParser()
parser.add_argument("--cycles", type=int, default=8)
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
net = WideNet(12).to("cuda")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
snapshots = []
for cycle in range(args.cycles):
    for _ in range(2):
        x, y = torch.randn(16, 3, 32, 32, device="cuda"), torch.randint(0, 100, (16,), device="cuda")
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    if args.fixed:
        snapshots.append({k: v.to("cpu", copy=True) for k, v in net.state_dict().items()})
    else:
        snapshots.append(copy.deepcopy(net).eval())
print(len(snapshots), "snapshots, loss", loss.item())
