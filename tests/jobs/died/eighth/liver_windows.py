"""Segments organs in whole abdominal CTs with overlapping windows: probabilities of each window are kept and averaged at the end."""
import itertools
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
ORGANS, WINDOW, STRIDE = 14, 64, 32
VOLUME = (128, 160, 160)


class Net(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv3d(1, width, 3, padding=1), nn.InstanceNorm3d(width), nn.LeakyReLU(0.01))
        self.down = nn.Sequential(nn.Conv3d(width, 2 * width, 3, 2, 1), nn.InstanceNorm3d(2 * width), nn.LeakyReLU(0.01))
        self.up = nn.ConvTranspose3d(2 * width, width, 2, 2)
        self.head = nn.Conv3d(2 * width, ORGANS, 1)

    def forward(self, x):
        a = self.enc(x)
        return self.head(torch.cat([a, self.up(self.down(a))], 1))


def places():
    return list(itertools.product(*(range(0, n - WINDOW + 1, STRIDE) for n in VOLUME)))


def cut(volume, place):
    z, y, x = place
    return volume[:, :, z:z + WINDOW, y:y + WINDOW, x:x + WINDOW]


@torch.inference_mode()
def segment(net, scan):
    found = []
    for place in places():
        p = F.softmax(net(cut(scan, place).to("cuda")), 1)
        found.append((place, p.half().cpu() if FIXED else p))
    total = torch.zeros(1, ORGANS, *VOLUME, dtype=torch.float16)
    for place, p in found:
        z, y, x = place
        total[:, :, z:z + WINDOW, y:y + WINDOW, x:x + WINDOW] += p.half().cpu()
    return total[:, :, ::4, ::4, ::4].argmax(1)


def main():
    net = Net().to("cuda").eval()
    for patient in range(1):
        organs = segment(net, torch.zeros(1, 1, *VOLUME))
        print("patient", patient, tuple(organs.shape))


main()
