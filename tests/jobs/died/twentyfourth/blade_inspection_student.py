"""Compresses the ConvNeXt that grades photographs of rotor blades into a ResNet for the drone."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import ConvNextConfig, ConvNextForImageClassification, ResNetConfig, ResNetForImageClassification

GRADES = 6


def big_model():
    config = ConvNextConfig(depths=[3, 3, 9, 3], hidden_sizes=[80, 160, 320, 640], num_labels=GRADES)
    return ConvNextForImageClassification(config)


def small_model():
    config = ResNetConfig(embedding_size=32, hidden_sizes=[32, 64, 128, 192], depths=[2, 2, 2, 2], layer_type="basic", num_labels=GRADES)
    return ResNetForImageClassification(config)


class Compressor(nn.Module):
    """Keeps both networks; forward() gives the loss for one batch."""

    def __init__(self, teacher, student, temperature=3.0, alpha=0.7):
        super().__init__()
        self.teacher, self.student = teacher, student
        self.temperature, self.alpha = temperature, alpha
        self.teacher.eval()
        if "--fixed" in sys.argv:
            self.teacher.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, pixels, grades):
        t = self.temperature
        expert = self.teacher(pixel_values=pixels).logits
        answer = self.student(pixel_values=pixels).logits
        soft = F.kl_div(F.log_softmax(answer / t, -1), F.softmax(expert / t, -1), reduction="batchmean") * t * t
        return self.alpha * soft + (1 - self.alpha) * F.cross_entropy(answer, grades)


def photographs(count, size, generator):
    for _ in range(count):
        yield torch.rand(size, 3, 224, 224, generator=generator), torch.randint(0, GRADES, (size,), generator=generator)


def main():
    generator = torch.Generator().manual_seed(31)
    compressor = Compressor(big_model(), small_model()).to("cuda").train()
    optimizer = torch.optim.SGD(compressor.student.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for step, (pixels, grades) in enumerate(photographs(6, 16, generator)):
        optimizer.zero_grad()
        loss = compressor(pixels.to("cuda"), grades.to("cuda"))
        loss.backward()
        optimizer.step()
        print("step", step, "loss", round(loss.item(), 4))


main()
