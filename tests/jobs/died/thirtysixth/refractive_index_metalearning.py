"""MAML for the refractive index of new thin-film materials: each material is a task with a few measured reflectance spectra."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call

ONE_BY_ONE = "--fixed" in sys.argv


class ReflectanceNet(nn.Module):
    """1-D CNN from s and p reflectance at three angles to n(lambda) and k(lambda)."""

    def __init__(self, width=64, blocks=4):
        super().__init__()
        self.first = nn.Conv1d(6, width, 7, padding=3)
        self.convs = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(blocks))
        self.last = nn.Conv1d(width, 2, 1)

    def forward(self, r):
        h = F.softplus(self.first(r))
        for conv in self.convs:
            h = h + F.softplus(conv(h))
        return self.last(h)


class MetaLearner:
    def __init__(self, net, inner_lr=0.02, inner_steps=3, outer_lr=1e-3):
        self.net, self.inner_lr, self.inner_steps = net, inner_lr, inner_steps
        self.opt = torch.optim.Adam(net.parameters(), lr=outer_lr)

    def adapt(self, r, nk):
        weights = dict(self.net.named_parameters())
        for _ in range(self.inner_steps):
            loss = F.mse_loss(functional_call(self.net, weights, (r,)), nk)
            grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
            weights = {name: w - self.inner_lr * g for (name, w), g in zip(weights.items(), grads)}
        return weights

    def task_loss(self, task):
        support_r, support_nk, query_r, query_nk = (t.cuda() for t in task)
        adapted = self.adapt(support_r, support_nk)
        return F.mse_loss(functional_call(self.net, adapted, (query_r,)), query_nk)

    def meta_step(self, tasks):
        self.opt.zero_grad()
        outer = 0.0
        for task in tasks:
            loss = self.task_loss(task) / len(tasks)
            if ONE_BY_ONE:
                loss.backward()
                loss = loss.detach()
            outer = outer + loss
        if not ONE_BY_ONE:
            outer.backward()
        self.opt.step()
        return outer.item()


def materials(count, shots=16, queries=24, wavelengths=401, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield (torch.rand(shots, 6, wavelengths, generator=g), torch.rand(shots, 2, wavelengths, generator=g),
               torch.rand(queries, 6, wavelengths, generator=g), torch.rand(queries, 2, wavelengths, generator=g))


if __name__ == "__main__":
    learner = MetaLearner(ReflectanceNet().cuda())
    for iteration in range(6):
        tasks = list(materials(16, seed=iteration))
        print(f"iteration {iteration:2d}  outer loss {learner.meta_step(tasks):.5f}")
