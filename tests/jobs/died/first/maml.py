"""Meta-learning with MAML; the losses of the tasks of a meta-batch are added up before the backward pass.

https://github.com/pytorch/pytorch/issues/2498
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call

parser = argparse.ArgumentParser()
parser.add_argument("--tasks", type=int, default=8)
parser.add_argument("--inner-steps", type=int, default=3)
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()


def conv4(width=64, ways=5):
    layers, cin = [], 3
    for _ in range(4):
        layers += [nn.Conv2d(cin, width, 3, padding=1), nn.GroupNorm(8, width), nn.ReLU(), nn.MaxPool2d(2)]
        cin = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * 25, ways))


def adapt(model, x, y):
    weights = dict(model.named_parameters())
    for _ in range(args.inner_steps):
        loss = F.cross_entropy(functional_call(model, weights, x), y)
        grads = torch.autograd.grad(loss, weights.values(), create_graph=True)
        weights = {name: w - 0.01 * g for (name, w), g in zip(weights.items(), grads)}
    return weights


model = conv4().cuda()
meta_optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for iteration in range(4):
    meta_optimizer.zero_grad()
    meta_loss = 0.0
    for task in range(args.tasks):
        support, query = torch.randn(25, 3, 84, 84, device="cuda"), torch.randn(75, 3, 84, 84, device="cuda")
        fast = adapt(model, support, torch.randint(0, 5, (25,), device="cuda"))
        loss = F.cross_entropy(functional_call(model, fast, query), torch.randint(0, 5, (75,), device="cuda")) / args.tasks
        if args.fixed:
            loss.backward()
            meta_loss += loss.item()
        else:
            meta_loss = meta_loss + loss
    if not args.fixed:
        meta_loss.backward()
    meta_optimizer.step()
    print(iteration, float(meta_loss))
