"""Parses photos of facades into 32 kinds of parts with a small DeepLab, trained with cross entropy plus a Dice loss of our own."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES, SIZE, BATCH = 32, 320, 8
FIXED = "--fixed" in sys.argv


def conv_bn(cin, cout, stride=1, dilation=1, groups=1):
    k = 3 if groups > 1 or stride > 1 or dilation > 1 else 1
    return nn.Sequential(nn.Conv2d(cin, cout, k, stride, dilation * (k // 2), dilation, groups, bias=False), nn.BatchNorm2d(cout), nn.ReLU6())


class Separable(nn.Sequential):
    def __init__(self, cin, cout, stride=1):
        super().__init__(conv_bn(cin, cin, stride, groups=cin), conv_bn(cin, cout))


class ASPP(nn.Module):
    def __init__(self, cin, cout, rates=(1, 6, 12)):
        super().__init__()
        self.branches = nn.ModuleList(conv_bn(cin, cout, dilation=r) for r in rates)
        self.project = conv_bn(cout * (len(rates) + 1), cout)
        self.pool = conv_bn(cin, cout)

    def forward(self, x):
        pooled = self.pool(x.mean((2, 3), keepdim=True)).expand(-1, -1, *x.shape[2:])
        return self.project(torch.cat([b(x) for b in self.branches] + [pooled], 1))


class DeepLab(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(conv_bn(3, 24, 2), Separable(24, 48, 2), Separable(48, 96, 2), Separable(96, 192, 2), Separable(192, 192))
        self.aspp = ASPP(192, 96)
        self.classifier = nn.Conv2d(96, CLASSES, 1)

    def forward(self, x):
        y = self.classifier(self.aspp(self.backbone(x)))
        return F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)


class DiceLoss(nn.Module):
    """1 minus the mean Dice of the image's parts."""

    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def one_hot(self, probabilities, target):
        truth = F.one_hot(target, CLASSES)
        truth = truth.permute(0, 3, 1, 2)
        intersection = (probabilities * truth).sum((2, 3))
        union = probabilities.pow(2).sum((2, 3)) + truth.pow(2).sum((2, 3))
        return intersection, union

    def by_index(self, probabilities, target):
        index = target.unsqueeze(1)
        hit = probabilities.gather(1, index)
        flat = torch.zeros(len(target), CLASSES, device=target.device)
        intersection = flat.scatter_add(1, target.flatten(1), hit.flatten(1))
        truth = flat.scatter_add(1, target.flatten(1), torch.ones_like(hit).flatten(1))
        return intersection, probabilities.flatten(2).norm(dim=2).square() + truth

    def forward(self, logits, target):
        probabilities = logits.softmax(1)
        intersection, union = (self.by_index if FIXED else self.one_hot)(probabilities, target)
        return 1 - ((2 * intersection + self.smooth) / (union + self.smooth)).mean()


def main():
    net, dice = DeepLab().cuda(), DiceLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=6, power=0.9)
    photo, parts = torch.rand(BATCH, 3, SIZE, SIZE), torch.randint(CLASSES, (BATCH, SIZE, SIZE))
    for step in range(6):
        x, y = photo.cuda(), parts.cuda()
        logits = net(x)
        loss = F.cross_entropy(logits, y) + dice(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        print("iter", step, "loss", loss.item())


main()
