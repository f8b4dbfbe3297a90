"""Distils a large vision transformer into a small one.

https://github.com/haitongli/knowledge-distillation-pytorch/issues/25
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class ViT(nn.Module):
    def __init__(self, dim, depth, heads, patch=16, classes=1000):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.zeros(1, (224 // patch) ** 2 + 1, dim))
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.blocks(x)[:, 0])


def kd_loss(student, teacher, labels, T=4.0, alpha=0.9):
    soft = F.kl_div(F.log_softmax(student / T, 1), F.softmax(teacher / T, 1), reduction="batchmean") * T * T
    return alpha * soft + (1 - alpha) * F.cross_entropy(student, labels)


def main(args):
    teacher = ViT(768, 10, 12).cuda().eval()
    student = ViT(256, 6, 4).cuda()
    if args.fixed:
        teacher.requires_grad_(False)
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4)
    for step in range(6):
        images = torch.randn(48, 3, 224, 224, device="cuda")
        labels = torch.randint(0, 1000, (48,), device="cuda")
        teacher_logits = teacher(images)
        loss = kd_loss(student(images), teacher_logits.detach(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    main(parser.parse_args())
