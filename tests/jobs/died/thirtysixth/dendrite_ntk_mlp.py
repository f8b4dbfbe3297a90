"""Are dendritic networks in the lazy regime? Trains a network of compartments and follows its empirical neural tangent kernel."""
import sys

import torch
import torch.nn as nn
from torch.func import functional_call, grad, vmap

FIXED = "--fixed" in sys.argv


class DendriticLayer(nn.Module):
    """Each unit has branches whose sums saturate before they meet in the soma."""

    def __init__(self, n_in, units, branches=4):
        super().__init__()
        self.branches = branches
        self.synapses = nn.Linear(n_in, units * branches)
        self.coupling = nn.Parameter(torch.ones(units, branches) / branches)

    def forward(self, x):
        local = torch.tanh(self.synapses(x)).unflatten(-1, (-1, self.branches))
        return torch.relu((local * self.coupling).sum(-1))


def network(inputs=256, units=384):
    return nn.Sequential(DendriticLayer(inputs, units), DendriticLayer(units, units), nn.Linear(units, 1)).cuda()


def kernel_rows(net, x):
    """Gradients of the output with respect to all parameters, one row for each input."""
    weights = {k: v.detach() for k, v in net.named_parameters()}

    def output(w, sample):
        return functional_call(net, w, (sample[None],)).squeeze()

    rows = vmap(grad(output), in_dims=(None, 0))(weights, x)
    return [r.flatten(1) for r in rows.values()]


def tangent_kernel(net, x):
    if not FIXED:
        return sum(r @ r.T for r in kernel_rows(net, x))
    kernel = torch.zeros(len(x), len(x), device=x.device)
    starts = range(0, len(x), 64)
    for i in starts:
        left = kernel_rows(net, x[i:i + 64])
        for j in starts:
            right = left if i == j else kernel_rows(net, x[j:j + 64])
            kernel[i:i + 64, j:j + 64] = sum(a @ b.T for a, b in zip(left, right))
    return kernel


def alignment(a, b):
    return ((a * b).sum() / (a.norm() * b.norm())).item()


def main():
    g = torch.Generator().manual_seed(86)
    x, y = torch.randn(4096, 256, generator=g), torch.randn(4096, 1, generator=g)
    probe = x[:512].cuda()
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    first = None
    for epoch in range(3):
        for part in torch.randperm(len(x), generator=g).split(256):
            loss = nn.functional.mse_loss(net(x[part].cuda()), y[part].cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        kernel = tangent_kernel(net, probe)
        first = kernel if first is None else first
        print(f"epoch {epoch}: loss {loss.item():.4f}, alignment with the first kernel {alignment(kernel, first):.4f}")


main()
