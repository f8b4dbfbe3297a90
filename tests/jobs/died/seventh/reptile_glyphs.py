"""Meta-learning of handwritten glyphs with Reptile: from each task's adapted weights the shared start moves a little towards their mean."""
import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
WAYS, SHOTS, INNER, TASKS = 20, 5, 4, 12


def network(width=128):
    layers, channels = [], 1
    for k in range(4):
        layers += [nn.Conv2d(channels, width * (1 + k // 2), 3, padding=1), nn.GroupNorm(8, width * (1 + k // 2)), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width * (1 + k // 2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * 4, 2048), nn.ReLU(), nn.Linear(2048, 1024), nn.ReLU(), nn.Linear(1024, WAYS))


def glyphs(seed):
    labels = torch.arange(WAYS).repeat_interleave(SHOTS)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    return torch.zeros(len(labels), 1, 32, 32).cuda(), labels[order].cuda()


class Learner:
    """A copy of the start, and an optimizer for it."""

    def __init__(self, start):
        self.net = copy.deepcopy(start)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3, betas=(0.0, 0.999))

    def adapt(self, images, labels):
        for _ in range(INNER):
            loss = F.cross_entropy(self.net(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


def outer_step(start, rate, first):
    losses = []
    if FIXED:
        mean = [torch.zeros_like(p) for p in start.parameters()]
        for n in range(TASKS):
            learner = Learner(start)
            losses.append(learner.adapt(*glyphs(first + n)))
            with torch.no_grad():
                for m, p in zip(mean, learner.net.parameters()):
                    m += p / TASKS
            del learner
    else:
        learners = []
        for n in range(TASKS):
            learners.append(Learner(start))
            losses.append(learners[-1].adapt(*glyphs(first + n)))
        with torch.no_grad():
            mean = [sum(ps) / TASKS for ps in zip(*[learner.net.parameters() for learner in learners])]
    with torch.no_grad():
        for p, m in zip(start.parameters(), mean):
            p.lerp_(m, rate)
    return sum(losses) / TASKS


if __name__ == "__main__":
    start = network().cuda()
    for step in range(3):
        print("outer step", step, "loss", outer_step(start, 1.0 - step / 3, TASKS * step))
