"""Finds faults in seismic cubes with a 3D network; the survey is small, so that all cubes are put on the GPU first.

After https://github.com/pytorch/pytorch/issues/34766 and https://github.com/matsengrp/netam/issues/119
"""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def survey(cubes=160, side=96):
    """Stands for numpy.load of the survey."""
    return torch.zeros(cubes, 1, side, side, side), torch.zeros(cubes, 1, side, side, side)


class FaultNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.a, self.b, self.c = self.block(1, width), self.block(width, 2 * width), self.block(2 * width, 4 * width)
        self.down, self.up = nn.MaxPool3d(2), nn.Upsample(scale_factor=2)
        self.d, self.e = self.block(6 * width, 2 * width), self.block(3 * width, width)
        self.out = nn.Conv3d(width, 1, 1)

    @staticmethod
    def block(cin, cout):
        return nn.Sequential(nn.Conv3d(cin, cout, 3, padding=1), nn.BatchNorm3d(cout), nn.ReLU(inplace=True))

    def forward(self, x):
        a = self.a(x)
        b = self.b(self.down(a))
        c = self.c(self.down(b))
        d = self.d(torch.cat([self.up(c), b], 1))
        return self.out(self.e(torch.cat([self.up(d), a], 1)))


def main():
    fixed = "--fixed" in sys.argv
    amplitudes, faults = survey()
    if not fixed:
        amplitudes, faults = amplitudes.cuda(), faults.cuda()
    loader = DataLoader(TensorDataset(amplitudes, faults), batch_size=1, shuffle=True)
    net = FaultNet().cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for i, (x, y) in enumerate(loader):
        x, y = x.cuda(), y.cuda()
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(i, loss.item())
        if i == 7:
            break


main()
