"""Low-rank adapters in a vision transformer, written by hand; the optimizer gets the adapters and the head.

https://github.com/microsoft/LoRA/issues/120
"""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class LowRank(nn.Module):
    def __init__(self, linear, rank=8):
        super().__init__()
        self.linear = linear
        self.a = nn.Parameter(torch.randn(rank, linear.in_features) / math.sqrt(rank))
        self.b = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        return self.linear(x) + x @ self.a.t() @ self.b.t()


class Layer(nn.Module):
    def __init__(self, d=1024, heads=16):
        super().__init__()
        self.n1, self.n2, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))
        return x + self.fc2(F.gelu(self.fc1(self.n2(x))))


class Net(nn.Module):
    def __init__(self, depth=8, d=1024):
        super().__init__()
        self.embed, self.layers, self.head = nn.Conv2d(3, d, 16, 16), nn.ModuleList(Layer(d) for _ in range(depth)), nn.Linear(d, 37)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
net = Net()
if args.fixed:
    net.requires_grad_(False)
adapters = []
for layer in net.layers:
    layer.qkv, layer.proj = LowRank(layer.qkv), LowRank(layer.proj)
    for module in layer.qkv, layer.proj:
        adapters += [module.a, module.b]
net.head.requires_grad_(True)
net.cuda()
optimizer = torch.optim.AdamW([*adapters, *net.head.parameters()], lr=1e-3)
for step in range(6):
    x, y = torch.randn(4, 3, 224, 224, device="cuda"), torch.randint(0, 37, (4,), device="cuda")
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
