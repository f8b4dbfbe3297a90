"""A physics-informed network for the vector potential around a magnet: laplace(A) = -j, A = 0 far away."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv


class Net(nn.Module):
    def __init__(self, width=192, depth=5):
        super().__init__()
        sizes = [2] + [width] * depth
        self.hidden = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])])
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return self.last(x)


def current(x):
    inside = (x[:, :1].abs() < 0.2) & (x[:, 1:].abs() < 0.4)
    return inside.to(x.dtype) * torch.sign(x[:, :1])


def laplacian(net, x):
    x = x.requires_grad_(True)
    a = net(x)
    gradient, = torch.autograd.grad(a.sum(), x, create_graph=True)
    second = 0
    for axis in range(2):
        second = second + torch.autograd.grad(gradient[:, axis].sum(), x, create_graph=True)[0][:, axis:axis + 1]
    return second


def points(inner, border):
    g = torch.Generator().manual_seed(1820)
    domain = torch.rand(inner, 2, generator=g, dtype=torch.float64) * 4 - 2
    angle = torch.rand(border, 1, generator=g, dtype=torch.float64) * 2 * torch.pi
    return domain, 2.8 * torch.cat([angle.cos(), angle.sin()], 1)


domain, border = points(24000, 2000)
net = Net()
if FIXED:
    domain, border = domain.float(), border.float()
else:
    net = net.double()  # the points are float64
net, domain, border = net.cuda(), domain.cuda(), border.cuda()
source = current(domain)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(10):
    residual = laplacian(net, domain) + source
    loss = residual.square().mean() + 10 * net(border).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    domain = domain.detach()
    print("step", step, "loss", loss.item())
