"""Anchor-free detector of hornbill nest cavities on drone photographs (one class, centre heat map plus box size)."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--img-size", type=int, default=1408)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
if args.fixed:
    args.img_size = 640


def cbs(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.SiLU())


class C2f(nn.Module):
    def __init__(self, c, n=1):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(cbs(c, c // 2), cbs(c // 2, c)) for _ in range(n))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


class NestDetector(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        self.stem = cbs(3, w, 2)
        self.s2 = nn.Sequential(cbs(w, 2 * w, 2), C2f(2 * w))
        self.s3 = nn.Sequential(cbs(2 * w, 4 * w, 2), C2f(4 * w, 2))
        self.s4 = nn.Sequential(cbs(4 * w, 8 * w, 2), C2f(8 * w, 2))
        self.lateral = nn.Conv2d(8 * w, 4 * w, 1)
        self.heat, self.size = nn.Conv2d(4 * w, 1, 1), nn.Conv2d(4 * w, 2, 1)

    def forward(self, x):
        c3 = self.s3(self.s2(self.stem(x)))
        p3 = c3 + F.interpolate(self.lateral(self.s4(c3)), scale_factor=2.0)
        return self.heat(p3), self.size(p3)


class DronePhotos(torch.utils.data.Dataset):
    def __init__(self, count, size):
        self.count, self.size = count, size
        self.base = torch.randint(0, 256, (3, size, size), dtype=torch.uint8)

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        cells = self.size // 8
        heat = torch.zeros(1, cells, cells)
        heat[0, i % cells, (3 * i) % cells] = 1
        return self.base.roll(i, 1), heat, torch.full((2, cells, cells), 0.1)


loader = torch.utils.data.DataLoader(DronePhotos(40, args.img_size), batch_size=args.batch_size, shuffle=True)
net = NestDetector().cuda()
opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.937, nesterov=True)
for epoch in range(args.epochs):
    for images, heat, size in loader:
        images = images.cuda(non_blocking=True).float() / 255
        heat, size = heat.cuda(), size.cuda()
        logits, boxes = net(images)
        loss = F.binary_cross_entropy_with_logits(logits, heat) + 0.1 * (F.l1_loss(boxes, size, reduction="none") * heat).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
