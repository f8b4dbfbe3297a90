"""Deep video prior: a network is fitted to one video, whose frames are put on the GPU before the training.

https://github.com/yzxing87/pytorch-deep-video-prior/issues/8
"""
import sys

import torch
import torch.nn as nn

fixed = "--fixed" in sys.argv
device = torch.device("cuda")


def read_frame(index):
    return torch.full((1, 3, 480, 848), index / 400.0)


class UNet(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.e1, self.e2 = self.two(3, c), self.two(c, 2 * c)
        self.e3 = self.two(2 * c, 4 * c)
        self.d2, self.d1 = self.two(6 * c, 2 * c), self.two(3 * c, c)
        self.out = nn.Conv2d(c, 3, 1)
        self.pool, self.up = nn.MaxPool2d(2), nn.Upsample(scale_factor=2, mode="nearest")

    @staticmethod
    def two(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, 1, 1), nn.LeakyReLU(0.2), nn.Conv2d(b, b, 3, 1, 1), nn.LeakyReLU(0.2))

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(self.pool(a))
        c = self.e3(self.pool(b))
        b = self.d2(torch.cat([self.up(c), b], 1))
        return self.out(self.d1(torch.cat([self.up(b), a], 1)))


net = UNet().to(device)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
frames = range(220)
if not fixed:
    inputs = [read_frame(i).to(device) for i in frames]
    targets = [read_frame(i).to(device) * 0.5 for i in frames]
for epoch in range(1):
    for i in list(frames)[:8]:
        x = read_frame(i).to(device) if fixed else inputs[i]
        y = read_frame(i).to(device) * 0.5 if fixed else targets[i]
        loss = nn.functional.l1_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
