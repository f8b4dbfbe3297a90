"""Fits a continuous normalizing flow to measurements of 24 channels; the density needs the trace of the Jacobian at each step of the solver."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
CHANNELS, BATCH, SOLVER_STEPS = 24, 512, 6


class Field(nn.Module):
    """dz/dt: layers whose weights are gated by time."""

    def __init__(self, dim, hidden):
        super().__init__()
        sizes = [dim, hidden, hidden, dim]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, sizes[1:]))
        self.gates = nn.ModuleList(nn.Linear(1, o) for o in sizes[1:])

    def forward(self, t, z):
        for n, (layer, gate) in enumerate(zip(self.layers, self.gates)):
            z = layer(z) * torch.sigmoid(gate(t.view(1, 1)))
            if n + 1 < len(self.layers):
                z = torch.tanh(z)
        return z


def trace_exact(dz, z):
    total = 0.0
    for k in range(z.size(1)):
        total = total + torch.autograd.grad(dz[:, k].sum(), z, create_graph=True)[0][:, k]
    return total


def trace_hutchinson(dz, z, probe):
    return (torch.autograd.grad(dz, z, probe, create_graph=True)[0] * probe).sum(-1)


class Flow(nn.Module):
    def __init__(self, dim, hidden=128):
        super().__init__()
        self.field = Field(dim, hidden)

    def derivative(self, t, z, probe):
        dz = self.field(t, z)
        trace = trace_hutchinson(dz, z, probe) if FIXED else trace_exact(dz, z)
        return dz, trace

    def log_prob(self, x):
        z = x.requires_grad_()
        probe = torch.randn_like(x).sign()
        change, h = torch.zeros(len(x), device=x.device), 1.0 / SOLVER_STEPS
        for n in range(SOLVER_STEPS):
            t = torch.full((1,), n * h, device=x.device)
            dz, _ = self.derivative(t, z, probe)
            middle, trace = self.derivative(t + h / 2, z + h / 2 * dz, probe)
            z, change = z + h * middle, change + h * trace
        base = -0.5 * (z.pow(2).sum(-1) + CHANNELS * 1.8379)
        return base + change


def measurements(steps):
    for _ in range(steps):
        yield torch.zeros(BATCH, CHANNELS)


def main():
    flow = Flow(CHANNELS).cuda()
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
    for step, x in enumerate(measurements(5)):
        loss = -flow.log_prob(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step %d, nats %.3f" % (step, loss.item()))


if __name__ == "__main__":
    main()
