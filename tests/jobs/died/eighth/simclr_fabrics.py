"""SimCLR on photos of fabrics with a small ResNet of its own; the paper says that larger batches learn better."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 48 if "--fixed" in sys.argv else 256


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.b1, self.b2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.short = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x):
        y = self.b2(self.c2(F.relu(self.b1(self.c1(x)))))
        return F.relu(y + self.short(x))


class SimCLR(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256), out=128):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, 1, 1)
        self.stages = nn.Sequential(*(Residual(a, b, s) for a, b, s in zip((widths[0], *widths), widths, (1, 2, 2, 2))))
        self.project = nn.Sequential(nn.Linear(widths[-1], widths[-1]), nn.ReLU(), nn.Linear(widths[-1], out))

    def forward(self, x):
        return F.normalize(self.project(self.stages(self.stem(x)).mean((2, 3))), dim=-1)


def contrast(a, b, temperature=0.2):
    z = torch.cat([a, b])
    n = len(a)
    scores = z @ z.T / temperature
    scores = scores.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=z.device), -1e9)
    partner = torch.cat([torch.arange(n, 2 * n), torch.arange(n)]).to(z.device)
    return F.cross_entropy(scores, partner)


def augment(images):
    return images.flip(-1) if torch.rand(()) < 0.5 else images.roll(4, -2)


def train(steps):
    model = SimCLR().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3 * BATCH / 256, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        images = torch.zeros(BATCH, 3, 64, 64).cuda()
        loss = contrast(model(augment(images)), model(augment(images)))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        print(step, loss.item())


train(4)
