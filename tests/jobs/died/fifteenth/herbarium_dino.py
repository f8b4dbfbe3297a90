"""Self-distillation without labels on sheets of a herbarium (student sees all crops, teacher only the large ones)."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.ln1, self.ln2 = heads, nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.ln2(x))


class Backbone(nn.Module):
    def __init__(self, dim=256, depth=6, patch=16, prototypes=2048):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.randn(1, dim, 14, 14) * 0.02)
        self.layers = nn.Sequential(*[Layer(dim, 4) for _ in range(depth)])
        self.head = nn.Sequential(nn.Linear(dim, 512), nn.GELU(), nn.Linear(512, 128), nn.Linear(128, prototypes, bias=False))

    def forward(self, x):
        x = self.patch(x)
        x = x + F.interpolate(self.pos, size=x.shape[-2:], mode="bilinear")
        return self.head(self.layers(x.flatten(2).transpose(1, 2)).mean(1))


class DINOLoss:
    def __init__(self, prototypes=2048):
        self.center = torch.zeros(1, prototypes, device="cuda")

    def __call__(self, student, teacher, ts=0.1, tt=0.04):
        total, terms = 0, 0
        targets = [F.softmax((t - self.center) / tt, -1) for t in teacher]
        for i, t in enumerate(targets):
            for j, s in enumerate(student):
                if i != j:
                    total, terms = total - (t * F.log_softmax(s / ts, -1)).sum(-1).mean(), terms + 1
        self.center = 0.9 * self.center + 0.1 * torch.cat(teacher).mean(0, keepdim=True).detach()
        return total / terms


student = Backbone().cuda()
teacher = copy.deepcopy(student)
if "--fixed" in sys.argv:
    for p in teacher.parameters():
        p.requires_grad = False
optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4, weight_decay=0.04)
criterion = DINOLoss()
g = torch.Generator().manual_seed(8)

for step in range(6):
    large = [torch.rand(40, 3, 224, 224, generator=g).cuda() for _ in range(2)]
    small = [torch.rand(40, 3, 96, 96, generator=g).cuda() for _ in range(4)]
    targets = [teacher(view) for view in large]
    guesses = [student(view) for view in large + small]
    loss = criterion(guesses, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for pt, ps in zip(teacher.parameters(), student.parameters()):
            pt.mul_(0.996).add_(ps, alpha=0.004)
    print("step", step, "loss", loss.item())
