"""A normalizing flow over the properties of dark-matter halos, with coupling layers that keep what they need for the plots."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
PROPERTIES = 64


class Coupling(nn.Module):
    def __init__(self, flip, hidden=256):
        super().__init__()
        self.flip = flip
        half = PROPERTIES // 2
        self.net = nn.Sequential(nn.Linear(half, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2 * half))
        self.history = []

    def forward(self, x):
        a, b = x.chunk(2, 1)
        if self.flip:
            a, b = b, a
        scale, shift = self.net(a).chunk(2, 1)
        scale = torch.tanh(scale)
        b = b * scale.exp() + shift
        # The plots show how the scales change while the flow learns.
        self.history.append(scale.detach().mean(0).cpu() if FIXED else scale)
        return torch.cat([b, a] if self.flip else [a, b], 1), scale.sum(1)


class Flow(nn.Module):
    def __init__(self, depth=8):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(k % 2 == 1) for k in range(depth))
        self.register_buffer("centre", torch.zeros(PROPERTIES))

    def log_prob(self, x):
        x = x - self.centre
        total = 0
        for layer in self.layers:
            x, log_determinant = layer(x)
            total = total + log_determinant
        return total - 0.5 * x.square().sum(1)

    def plot(self):
        for n, layer in enumerate(self.layers):
            print("layer", n, "calls", len(layer.history), "last mean scale", layer.history[-1].mean().item())


def halos(count, batch=4096):
    for _ in range(count):
        yield torch.zeros(batch, PROPERTIES)


flow = Flow().cuda()
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-4)
for step, batch in enumerate(halos(150)):
    loss = -flow.log_prob(batch.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(flow.parameters(), 10.0)
    optimizer.step()
    if step % 30 == 0:
        print("step", step, "loss", loss.item())
flow.plot()
