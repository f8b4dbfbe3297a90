"""Learns classes of toys task after task; dark experience replay keeps it from forgetting."""
import random
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
TASKS, STEPS, BATCH, CLASSES, SIZE = 4, 14, 48, 40, 96


class Memory:
    """Images and answers, by reservoir sampling if there is a limit."""

    def __init__(self, limit=None):
        self.limit, self.seen, self.rows = limit, 0, []

    def add(self, images, answers):
        for image, answer in zip(images.clone(), answers):
            self.seen += 1
            if self.limit is None or len(self.rows) < self.limit:
                self.rows.append((image.clone(), answer.clone()))
            else:
                place = random.randrange(self.seen)
                if place < self.limit:
                    self.rows[place] = image.clone(), answer.clone()

    def draw(self, n):
        images, answers = zip(*random.sample(self.rows, n))
        return torch.stack(images), torch.stack(answers)


def network():
    layers, before = [], 3
    for width in (32, 64, 128, 256):
        layers += [nn.Conv2d(before, width, 3, 1 if before == 3 else 2, 1, bias=False), nn.GroupNorm(8, width), nn.ReLU()]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES))


def task(number):
    first = number * CLASSES // TASKS
    for _ in range(STEPS):
        yield torch.zeros(BATCH, 3, SIZE, SIZE), torch.randint(first, first + CLASSES // TASKS, (BATCH,))


def main():
    random.seed(2)
    net, memory = network().cuda(), Memory(200 if FIXED else None)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03)
    for number in range(TASKS):
        for images, labels in task(number):
            images, labels = images.cuda(), labels.cuda()
            answers = net(images)
            loss = F.cross_entropy(answers, labels)
            if memory.seen:
                old, said = memory.draw(BATCH // 2)
                loss = loss + 0.5 * F.mse_loss(net(old), said)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            memory.add(images, answers.detach())
        print("task", number, "loss", loss.item(), "in memory", len(memory.rows))


main()
