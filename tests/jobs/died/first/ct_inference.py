"""Segments CT volumes with a 3D network and a sliding window; the scores of all classes are summed up on the GPU.

https://github.com/ljwztc/CLIP-Driven-Universal-Model/issues/55
"""
import argparse
import itertools

import torch
import torch.nn as nn


def double(a, b):
    return nn.Sequential(nn.Conv3d(a, b, 3, 1, 1), nn.InstanceNorm3d(b), nn.LeakyReLU(), nn.Conv3d(b, b, 3, 1, 1), nn.InstanceNorm3d(b), nn.LeakyReLU())


class UNet3D(nn.Module):
    def __init__(self, classes, w=32):
        super().__init__()
        self.e1, self.e2, self.e3 = double(1, w), double(w, 2 * w), double(2 * w, 4 * w)
        self.u2, self.u1 = nn.ConvTranspose3d(4 * w, 2 * w, 2, 2), nn.ConvTranspose3d(2 * w, w, 2, 2)
        self.d2, self.d1, self.out = double(4 * w, 2 * w), double(2 * w, w), nn.Conv3d(w, classes, 1)
        self.pool = nn.MaxPool3d(2)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(self.pool(a))
        c = self.e3(self.pool(b))
        b = self.d2(torch.cat([self.u2(c), b], 1))
        return self.out(self.d1(torch.cat([self.u1(b), a], 1)))


def sliding_window(model, volume, classes, roi, where):
    scores = torch.zeros(classes, *volume.shape, device=where)
    count = torch.zeros(volume.shape, device=where)
    starts = [range(0, s - roi + 1, roi) for s in volume.shape]
    for z, y, x in itertools.product(*starts):
        window = (slice(z, z + roi), slice(y, y + roi), slice(x, x + roi))
        out = model(volume[window][None, None].cuda())[0].to(where)
        scores[(slice(None), *window)] += out
        count[window] += 1
    return (scores / count).argmax(0)


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
CLASSES = 40
net = UNet3D(CLASSES).cuda().eval()
with torch.inference_mode():
    for patient in range(2):
        ct = torch.zeros(192, 192, 192)
        labels = sliding_window(net, ct, CLASSES, 96, "cpu" if args.fixed else "cuda")
        print(patient, tuple(labels.shape))
