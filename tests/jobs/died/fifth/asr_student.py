"""Distils a large acoustic model into a small one that fits a hearing aid, with cross entropy and the teacher's soft labels."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Acoustic:
    dim: int
    layers: int
    units: int = 120
    kernel: int = 15


class ConvBlock(nn.Module):
    def __init__(self, dim, kernel):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.inner = nn.Linear(dim, 2 * dim)
        self.depthwise = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.outer = nn.Linear(dim, dim)
        self.feed = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        y = F.glu(self.inner(self.norm(x)), -1)
        y = F.silu(self.depthwise(y.transpose(1, 2))).transpose(1, 2)
        x = x + self.outer(y)
        return x + self.feed(x)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.front = nn.Linear(80, c.dim)
        self.blocks = nn.ModuleList(ConvBlock(c.dim, c.kernel) for _ in range(c.layers))
        self.head = nn.Linear(c.dim, c.units)

    def forward(self, mel):
        x = self.front(mel)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Distiller:
    def __init__(self, teacher, student, temperature=2.0):
        self.teacher, self.student, self.temperature = teacher.cuda().eval(), student.cuda(), temperature
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=1e-3)

    def soft_labels(self, mel):
        return F.softmax(self.teacher(mel) / self.temperature, -1)

    def step(self, mel, units):
        if "--fixed" in sys.argv:
            with torch.no_grad():
                soft = self.soft_labels(mel)
        else:
            soft = self.soft_labels(mel)
        logits = self.student(mel)
        hard = F.cross_entropy(logits.flatten(0, 1), units.flatten())
        kl = F.kl_div(F.log_softmax(logits / self.temperature, -1), soft, reduction="batchmean") / mel.shape[1]
        loss = 0.3 * hard + 0.7 * self.temperature ** 2 * kl
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


distiller = Distiller(Model(Acoustic(384, 10)), Model(Acoustic(144, 6)))
for n in range(6):
    mel, units = torch.zeros(10, 500, 80), torch.zeros(10, 500, dtype=torch.long)
    print("step", n, distiller.step(mel.cuda(), units.cuda()))
