"""Self-distillation without labels on macro photos of mosses, following the DINO paper with a small ViT of our own."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class MossViT(nn.Module):
    def __init__(self, dim=192, depth=5, heads=3, patch=8, out=2048):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.zeros(1, dim, 12, 12))
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 512), nn.GELU(), nn.Linear(512, out))

    def forward(self, crops):
        x = self.embed(crops)
        x = x + F.interpolate(self.pos, size=x.shape[-2:], mode="bilinear")
        x = self.blocks(x.flatten(2).transpose(1, 2))
        return self.head(x.mean(1))


class DinoLoss(nn.Module):
    def __init__(self, out=2048, student_temp=0.1, teacher_temp=0.04, momentum=0.9):
        super().__init__()
        self.student_temp, self.teacher_temp, self.momentum = student_temp, teacher_temp, momentum
        self.center = torch.zeros(1, out, device="cuda")

    def forward(self, student, teacher):
        target = F.softmax((teacher - self.center) / self.teacher_temp, dim=-1).detach().chunk(2)
        loss, terms = 0.0, 0
        for i, t in enumerate(target):
            for j, s in enumerate(student):
                if i != j:
                    loss = loss - (t * F.log_softmax(s / self.student_temp, -1)).sum(-1).mean()
                    terms += 1
        self.update_center(teacher.detach() if FIXED else teacher)
        return loss / terms

    def update_center(self, teacher):
        self.center = self.center * self.momentum + teacher.mean(0, keepdim=True) * (1 - self.momentum)


student = MossViT().cuda()
teacher = copy.deepcopy(student)
criterion = DinoLoss()
optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4, weight_decay=0.04)
gen = torch.Generator().manual_seed(8)

for step in range(14):
    large = torch.rand(2 * 24, 3, 96, 96, generator=gen).cuda()
    small = torch.rand(4 * 24, 3, 48, 48, generator=gen).cuda()
    views = list(student(large).chunk(2)) + list(student(small).chunk(4))
    loss = criterion(views, teacher(large))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for ps, pt in zip(student.parameters(), teacher.parameters()):
            pt.mul_(0.996).add_(ps, alpha=0.004)
    print(f"step {step}: {loss.item():.3f}")
