# Few-shot recognition of fungal spores under the microscope: MAML, second order, four conv layers.
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

WAYS, SHOTS, QUERIES = 5, 5, 10
INNER_STEPS, INNER_LR = 3, 0.4
TASKS = 12


def conv4(width=48):
    layers, cin = [], 1
    for _ in range(4):
        layers += [nn.Conv2d(cin, width, 3, padding=1), nn.BatchNorm2d(width, track_running_stats=False), nn.ReLU(), nn.MaxPool2d(2)]
        cin = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * 4, WAYS))


class SporeTasks:
    def __init__(self, seed=0):
        self.g = torch.Generator().manual_seed(seed)

    def sample(self):
        def part(k):
            x = torch.rand(WAYS * k, 1, 32, 32, generator=self.g)
            return x.cuda(), torch.arange(WAYS).repeat_interleave(k).cuda()
        return *part(SHOTS), *part(QUERIES)


class MAML:
    def __init__(self):
        self.net = conv4().cuda()
        self.meta_opt = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def adapt(self, xs, ys):
        fast = dict(self.net.named_parameters())
        for _ in range(INNER_STEPS):
            loss = F.cross_entropy(functional_call(self.net, fast, (xs,)), ys)
            grads = torch.autograd.grad(loss, tuple(fast.values()), create_graph=True)
            fast = {n: p - INNER_LR * g for (n, p), g in zip(fast.items(), grads)}
        return fast

    def query_loss(self, task):
        xs, ys, xq, yq = task
        return F.cross_entropy(functional_call(self.net, self.adapt(xs, ys), (xq,)), yq)

    def outer_step(self, tasks):
        self.meta_opt.zero_grad()
        meta_loss = torch.zeros((), device="cuda")
        for task in tasks:
            meta_loss = meta_loss + self.query_loss(task) / len(tasks)
        meta_loss.backward()
        self.meta_opt.step()
        return meta_loss.item()


class PerTask(MAML):
    def outer_step(self, tasks):
        self.meta_opt.zero_grad()
        total = 0.0
        for task in tasks:
            loss = self.query_loss(task) / len(tasks)
            loss.backward()
            total += loss.item()
        self.meta_opt.step()
        return total


learner = PerTask() if "--fixed" in sys.argv else MAML()
source = SporeTasks()
for it in range(5):
    print("meta step", it, learner.outer_step([source.sample() for _ in range(TASKS)]))
