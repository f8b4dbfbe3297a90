"""Few-shot recognition of handwritten characters with MAML; meta-training is followed by tests with more steps of adaptation."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call

FIXED = "--fixed" in sys.argv
WAYS, SHOTS, QUERIES = 5, 5, 15


def network(width=64):
    layers, inner = [], 1
    for k in range(4):
        layers += [nn.Conv2d(inner, width, 3, padding=1), nn.GroupNorm(8, width), nn.ReLU(), nn.MaxPool2d(2)]
        inner = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * 4, WAYS))


def task():
    """Support and query images with their labels."""
    support, query = torch.zeros(WAYS * SHOTS, 1, 32, 32), torch.zeros(WAYS * QUERIES, 1, 32, 32)
    return [t.cuda() for t in (support, torch.arange(WAYS).repeat(SHOTS), query, torch.arange(WAYS).repeat(QUERIES))]


def adapt(model, parameters, images, labels, steps, rate, second_order):
    for _ in range(steps):
        loss = F.cross_entropy(functional_call(model, parameters, (images,)), labels)
        gradients = torch.autograd.grad(loss, list(parameters.values()), create_graph=second_order)
        parameters = {name: p - rate * g for (name, p), g in zip(parameters.items(), gradients)}
        if not second_order:
            parameters = {name: p.detach().requires_grad_() for name, p in parameters.items()}
    return parameters


class MetaLearner:
    def __init__(self, tasks=2):
        self.model, self.tasks = network().cuda(), tasks
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def train_step(self):
        self.optimizer.zero_grad()
        for _ in range(self.tasks):
            images, labels, queries, answers = task()
            fast = adapt(self.model, dict(self.model.named_parameters()), images, labels, 2, 0.4, True)
            loss = F.cross_entropy(functional_call(self.model, fast, (queries,)), answers) / self.tasks
            loss.backward()
        self.optimizer.step()
        return loss.item()

    def test(self, tasks, steps=20):
        self.model.eval()
        right = 0.0
        for _ in range(tasks):
            images, labels, queries, answers = task()
            fast = adapt(self.model, dict(self.model.named_parameters()), images, labels, steps, 0.4, not FIXED)
            with torch.no_grad():
                right += (functional_call(self.model, fast, (queries,)).argmax(1) == answers).float().mean().item()
        self.model.train()
        return right / tasks


learner = MetaLearner()
for round_ in range(2):
    for _ in range(4):
        loss = learner.train_step()
    print("round", round_, "loss", loss, "accuracy of new tasks", learner.test(3))
