"""Multi-task learning with PCGrad: the gradients of the tasks are compared and projected.

https://github.com/rabbityl/lepard/issues/5
"""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--tasks", type=int, default=6)
parser.add_argument("--fixed", action="store_true", help="project the gradients of the shared representation only")
args = parser.parse_args()


class MultiTask(nn.Module):
    def __init__(self, width=1792):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(512, width), nn.ReLU(), *[m for _ in range(7) for m in (nn.Linear(width, width), nn.ReLU())])
        self.heads = nn.ModuleList(nn.Linear(width, 10) for _ in range(args.tasks))

    def losses(self, x, targets):
        h = self.shared(x)
        return h, [F.cross_entropy(head(h), t) for head, t in zip(self.heads, targets)]


def project(grads):
    out = [g.clone() for g in grads]
    for i, g in enumerate(out):
        for j in random.sample(range(len(grads)), len(grads)):
            dot = torch.dot(g, grads[j])
            g -= dot.clamp(max=0) * grads[j] / (grads[j].norm() ** 2 + 1e-12)
    return torch.stack(out).sum(0)


model = MultiTask().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
shared = list(model.shared.parameters())
for step in range(4):
    x, targets = torch.randn(128, 512, device="cuda"), torch.randint(0, 10, (args.tasks, 128), device="cuda")
    h, losses = model.losses(x, targets)
    optimizer.zero_grad()
    if args.fixed:
        flat = [torch.autograd.grad(loss, h, retain_graph=True)[0].flatten() for loss in losses]
        h.backward(project(flat).view_as(h))
    else:
        task_grads = [torch.cat([g.flatten() for g in torch.autograd.grad(loss, shared, retain_graph=True)]) for loss in losses]
        merged = project(task_grads)
        for p, g in zip(shared, merged.split([p.numel() for p in shared])):
            p.grad = g.view_as(p)
    optimizer.step()
    print(step, sum(loss.item() for loss in losses))
