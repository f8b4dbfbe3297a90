"""Segments floor plans into 120 kinds of rooms and furniture; a soft Dice loss beside the cross entropy, in mixed precision."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
KINDS, SIZE, BATCH = 120, 256, 4


class SoftDice(nn.Module):
    """One minus Dice, the mean over all kinds."""

    def forward(self, logits, target):
        probability = logits.softmax(1)
        if FIXED:
            right = probability.gather(1, target.unsqueeze(1)).squeeze(1)
            flat = target.flatten()
            overlap = torch.zeros(KINDS, device=logits.device, dtype=right.dtype).index_add(0, flat, right.flatten())
            count = torch.zeros_like(overlap).index_add(0, flat, torch.ones_like(right.flatten()))
        else:
            wanted = F.one_hot(target, KINDS).permute(0, 3, 1, 2)
            overlap = (probability * wanted).sum((0, 2, 3))
            count = wanted.sum((0, 2, 3))
        return 1 - ((2 * overlap + 1) / (probability.sum((0, 2, 3)) + count + 1)).mean()


def conv(before, after, stride=1):
    return nn.Sequential(nn.Conv2d(before, after, 3, stride, 1), nn.GroupNorm(8, after), nn.ReLU(inplace=True))


class Plans(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.one, self.two = conv(1, width, 2), conv(width, 2 * width, 2)
        self.three = nn.Sequential(conv(2 * width, 4 * width, 2), conv(4 * width, 4 * width))
        self.side = conv(2 * width, 4 * width)
        self.out = nn.Conv2d(4 * width, KINDS, 1)

    def forward(self, plan):
        two = self.two(self.one(plan))
        x = F.interpolate(self.three(two), scale_factor=2, mode="bilinear") + self.side(two)
        return F.interpolate(self.out(x), scale_factor=4, mode="bilinear")


def main():
    net, dice = Plans().cuda(), SoftDice()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(6):
        plan = torch.zeros(BATCH, 1, SIZE, SIZE).cuda()
        rooms = torch.randint(0, KINDS, (BATCH, SIZE, SIZE)).cuda()
        with torch.autocast("cuda", torch.float16):
            logits = net(plan)
            loss = F.cross_entropy(logits, rooms) + dice(logits, rooms)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print("step", step, "loss", loss.item())


main()
