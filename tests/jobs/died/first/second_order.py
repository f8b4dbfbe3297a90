"""An optimizer that wanted the diagonal of the Hessian was replaced by Adam; the call of backward stayed as it was.

https://github.com/akanimax/pro_gan_pytorch/pull/12
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

fixed = "--fixed" in sys.argv


class Bottleneck(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(c, c // 2, 1), nn.GroupNorm(8, c // 2), nn.SiLU(), nn.Conv2d(c // 2, c // 2, 3, padding=1),
                                 nn.GroupNorm(8, c // 2), nn.SiLU(), nn.Conv2d(c // 2, c, 1))

    def forward(self, x):
        return x + self.net(x)


net = nn.Sequential(nn.Conv2d(3, 512, 8, 8), *[Bottleneck(512) for _ in range(12)], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100)).cuda()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(6):
    x, y = torch.randn(32, 3, 160, 160, device="cuda"), torch.randint(0, 100, (32,), device="cuda")
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward(create_graph=not fixed)
    opt.step()
    for p in net.parameters():
        p.grad = None
    print(step, loss.item())
