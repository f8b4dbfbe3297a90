"""Texture recognition from a camera-based fingertip sensor; after training, the sharpness of the minimum (largest eigenvalue of the Hessian)."""
import sys

import torch
from torch import nn

torch.manual_seed(8)
dev = "cuda"


def make_net(textures=23):
    layers, c = [], 3
    for w in (32, 64, 96, 128):
        layers += [nn.Conv2d(c, w, 3, padding=1), nn.GroupNorm(8, w), nn.SiLU(), nn.AvgPool2d(2)]
        c = w
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, textures)).to(dev)


def touches(n, batch=16, seed=5):
    g = torch.Generator().manual_seed(seed)
    return [(torch.rand(batch, 3, 96, 96, generator=g), torch.randint(0, 23, (batch,), generator=g)) for _ in range(n)]


def train(net, data, epochs=2):
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, nesterov=True)
    for epoch in range(epochs):
        for x, y in data:
            loss = nn.functional.cross_entropy(net(x.to(dev)), y.to(dev))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, "loss", loss.item())
    opt.zero_grad(set_to_none=True)


class Curvature:
    def __init__(self, net, data):
        self.net, self.data = net, data
        self.params = [p for p in net.parameters() if p.requires_grad]

    def batch_gradient(self, x, y):
        loss = nn.functional.cross_entropy(self.net(x.to(dev)), y.to(dev)) / len(self.data)
        return torch.autograd.grad(loss, self.params, create_graph=True)

    def hvp_full(self, v):
        """Gradient over all batches first, then its derivative along v."""
        total = [torch.zeros_like(p) for p in self.params]
        for x, y in self.data:
            total = [t + g for t, g in zip(total, self.batch_gradient(x, y))]
        dot = sum((t * u).sum() for t, u in zip(total, v))
        return torch.autograd.grad(dot, self.params)

    def hvp_batched(self, v):
        out = [torch.zeros_like(p) for p in self.params]
        for x, y in self.data:
            dot = sum((g * u).sum() for g, u in zip(self.batch_gradient(x, y), v))
            out = [o + h for o, h in zip(out, torch.autograd.grad(dot, self.params))]
        return out

    def top_eigenvalue(self, iterations=3):
        product = self.hvp_batched if "--fixed" in sys.argv else self.hvp_full
        v = [torch.randn_like(p) for p in self.params]
        for _ in range(iterations):
            norm = torch.sqrt(sum((u * u).sum() for u in v)) + 1e-12
            v = [u / norm for u in v]
            hv = product(v)
            eigenvalue = sum((a * b).sum() for a, b in zip(v, hv)).item()
            v = [h.detach() for h in hv]
        return eigenvalue


net = make_net()
data = touches(20)
train(net, data)
print("largest eigenvalue", Curvature(net, data).top_eigenvalue())
