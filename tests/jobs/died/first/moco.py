"""Momentum contrast; the keys of earlier batches are the negatives.

https://github.com/VDIGPKU/T-SEA/issues/13
"""
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, dim=512):
        super().__init__()
        widths = (64, 128, 256, 512, 512)
        self.conv = nn.Sequential(*[nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in zip((3,) + widths, widths)])
        self.proj = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, dim))

    def forward(self, x):
        return F.normalize(self.proj(self.conv(x).mean((2, 3))), dim=1)


p = argparse.ArgumentParser()
p.add_argument("--queue", type=int, default=8192)
p.add_argument("--fixed", action="store_true")
args = p.parse_args()
query = Encoder().cuda()
key = copy.deepcopy(query).requires_grad_(False)
optimizer = torch.optim.SGD(query.parameters(), 0.03, momentum=0.9, weight_decay=1e-4)
queue = F.normalize(torch.randn(args.queue, 512, device="cuda"), dim=1)
for it in range(14):
    views = torch.randn(2, 16, 24, 3, 64, 64, device="cuda")
    q = query(views[0].flatten(0, 1))
    with torch.no_grad():
        for a, b in zip(key.parameters(), query.parameters()):
            a.mul_(0.999).add_(b, alpha=0.001)
        many = torch.cat([key(v) for v in views[1]])
        many = many.repeat(48, 1)  # crops of one image share a key
    pos = (q * many[:len(q)]).sum(1, keepdim=True)
    neg = q @ queue.t()
    logits = torch.cat([pos, neg], 1) / 0.07
    loss = F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    queue = torch.cat([queue, many])
    if args.fixed:
        queue = queue[-args.queue:]
print(tuple(queue.shape), loss.item())
