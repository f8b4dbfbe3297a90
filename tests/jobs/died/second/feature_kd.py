"""A small residual network learns the features of a large one (hints, two stages) beside its labels.

The large one is in eval mode. After https://github.com/haitongli/knowledge-distillation-pytorch/issues/25 and
https://github.com/clovaai/overhaul-distillation/issues/34
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Basic(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
        self.c2, self.b2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
        self.short = nn.Conv2d(cin, cout, 1, stride, bias=False) if stride > 1 or cin != cout else nn.Identity()

    def forward(self, x):
        return F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x))))) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, blocks, widths, classes=100):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 7, 2, 3, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.stages = nn.ModuleList()
        for i, (n, w) in enumerate(zip(blocks, widths)):
            before = widths[max(i - 1, 0)]
            self.stages.append(nn.Sequential(*[Basic(before if j == 0 else w, w, 2 if i and j == 0 else 1) for j in range(n)]))
        self.fc = nn.Linear(widths[-1], classes)

    def forward(self, x):
        x, features = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        return self.fc(x.mean((2, 3))), features


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--batch", type=int, default=48)
    args = parser.parse_args()
    student = ResNet((1, 1, 1, 1), (32, 64, 128, 256)).cuda()
    teacher = ResNet((3, 4, 6, 3), (64, 128, 256, 512)).cuda().eval()
    adapters = nn.ModuleList([nn.Conv2d(128, 256, 1), nn.Conv2d(256, 512, 1)]).cuda()
    optimizer = torch.optim.SGD([*student.parameters(), *adapters.parameters()], lr=0.1, momentum=0.9)
    for step in range(6):
        images, labels = torch.rand(args.batch, 3, 224, 224).cuda(), torch.randint(100, (args.batch,)).cuda()
        if args.fixed:
            with torch.no_grad():
                known, hints = teacher(images)
        else:
            known, hints = teacher(images)
        out, features = student(images)
        loss = F.cross_entropy(out, labels) + F.kl_div((out / 4).log_softmax(1), (known / 4).softmax(1), reduction="batchmean")
        for adapter, mine, theirs in zip(adapters, features[2:], hints[2:]):
            loss = loss + F.mse_loss(adapter(mine), theirs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
