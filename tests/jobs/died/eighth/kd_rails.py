"""Distils a large segmentation network for rails into a small one that fits the train's computer."""
import contextlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
CLASSES = 6


def conv(inside, outside, stride=1):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(inplace=True))


class Segmenter(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = conv(3, width, 2)
        self.down = conv(width, 2 * width, 2)
        self.body = nn.Sequential(*(conv(2 * width, 2 * width) for _ in range(depth)))
        self.up = conv(3 * width, width)
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        a = self.stem(x)
        b = F.interpolate(self.body(self.down(a)), scale_factor=2.0, mode="bilinear")
        return F.interpolate(self.head(self.up(torch.cat([a, b], 1))), scale_factor=2.0, mode="bilinear")


class Distiller:
    def __init__(self, temperature=4.0, share=0.7):
        self.teacher = Segmenter(64, 10).to("cuda")
        self.teacher.train()  # the batch's own statistics work better for the teacher
        self.student = Segmenter(16, 3).to("cuda")
        self.optimizer = torch.optim.SGD(self.student.parameters(), lr=0.02, momentum=0.9)
        self.temperature, self.share = temperature, share

    def soft(self, images):
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            return (self.teacher(images) / self.temperature).softmax(1)

    def step(self, images, labels):
        soft = self.soft(images)
        logits = self.student(images)
        kd = F.kl_div((logits / self.temperature).log_softmax(1), soft.detach(), reduction="batchmean") * self.temperature ** 2
        loss = self.share * kd + (1 - self.share) * F.cross_entropy(logits, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    distiller = Distiller()
    for n in range(4):
        print(n, distiller.step(torch.zeros(8, 3, 192, 256).to("cuda"), torch.zeros(8, 192, 256, dtype=torch.long).to("cuda")))


main()
