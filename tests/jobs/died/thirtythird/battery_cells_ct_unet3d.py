"""Segments the windings of battery cells in X-ray CT volumes with a 3D U-Net (patch-wise training)."""
import argparse
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--patch", type=int, default=96 if "--fixed" in sys.argv else 160)
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()


class CellPatches(Dataset):
    """Random patches: anode, cathode, separator, casing, air."""

    def __len__(self):
        return args.steps

    def __getitem__(self, index):
        p = args.patch
        return torch.full((1, p, p, p), 0.1 * index), torch.zeros(p, p, p, dtype=torch.long)


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv3d(cin, cout, 3, padding=1, bias=False), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01),
        nn.Conv3d(cout, cout, 3, padding=1, bias=False), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01),
    )


class UNet3D(nn.Module):
    def __init__(self, w, classes=5):
        super().__init__()
        self.e1, self.e2, self.e3, self.mid = double_conv(1, w), double_conv(w, 2 * w), double_conv(2 * w, 4 * w), double_conv(4 * w, 8 * w)
        self.u3, self.u2, self.u1 = (nn.ConvTranspose3d(2 * c, c, 2, stride=2) for c in (4 * w, 2 * w, w))
        self.d3, self.d2, self.d1 = double_conv(8 * w, 4 * w), double_conv(4 * w, 2 * w), double_conv(2 * w, w)
        self.pool, self.out = nn.MaxPool3d(2), nn.Conv3d(w, classes, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(self.pool(a))
        c = self.e3(self.pool(b))
        m = self.mid(self.pool(c))
        m = self.d3(torch.cat([c, self.u3(m)], 1))
        m = self.d2(torch.cat([b, self.u2(m)], 1))
        return self.out(self.d1(torch.cat([a, self.u1(m)], 1)))


net = UNet3D(args.width).cuda()
sgd = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.99, nesterov=True)
for i, (volume, mask) in enumerate(DataLoader(CellPatches(), batch_size=1)):
    sgd.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(net(volume.cuda()), mask.cuda())
    loss.backward()
    sgd.step()
    print(f"iter {i}: ce {loss.item():.3f}")
