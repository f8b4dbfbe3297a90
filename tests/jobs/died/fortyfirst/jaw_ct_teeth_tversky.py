"""Segments 48 structures of the jaw (teeth, canals, bone) in cone-beam CT with a small residual 3D U-Net."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
CLASSES, SIDE, BATCH = 48, 64, 2


class Double(nn.Sequential):
    """Two convolutions with instance norms."""

    def __init__(self, into, out):
        super().__init__(nn.Conv3d(into, out, 3, padding=1, bias=False), nn.InstanceNorm3d(out), nn.LeakyReLU(0.01, True),
                         nn.Conv3d(out, out, 3, padding=1, bias=False), nn.InstanceNorm3d(out), nn.LeakyReLU(0.01, True))


class UNet3D(nn.Module):
    """Three levels."""

    def __init__(self, width=8):
        super().__init__()
        w = width
        self.d1, self.d2, self.bottom = Double(1, w), Double(w, 2 * w), Double(2 * w, 4 * w)
        self.up2, self.u2 = nn.ConvTranspose3d(4 * w, 2 * w, 2, 2), Double(4 * w, 2 * w)
        self.up1, self.u1 = nn.ConvTranspose3d(2 * w, w, 2, 2), Double(2 * w, w)
        self.out = nn.Conv3d(w, CLASSES, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool3d(a, 2))
        c = self.bottom(F.max_pool3d(b, 2))
        b = self.u2(torch.cat([self.up2(c), b], 1))
        return self.out(self.u1(torch.cat([self.up1(b), a], 1)))


def tversky(probabilities, labels, alpha=0.3, beta=0.7):
    wanted = F.one_hot(labels, CLASSES).permute(0, 4, 1, 2, 3).contiguous()
    hit = (probabilities * wanted).sum((2, 3, 4))
    extra = (probabilities * (1 - wanted)).sum((2, 3, 4))
    missed = ((1 - probabilities) * wanted).sum((2, 3, 4))
    return 1 - ((hit + 1) / (hit + alpha * extra + beta * missed + 1)).mean()


def tversky_by_label(probabilities, labels, alpha=0.3, beta=0.7):
    """The same without rows of zeros and ones: what each voxel gives to its own class is gathered and added up."""
    flat, own = probabilities.flatten(2), labels.flatten(1)
    picked = flat.gather(1, own[:, None])[:, 0]
    zeros = flat.new_zeros(len(flat), CLASSES)
    hit = zeros.scatter_add(1, own, picked)
    extra, missed = flat.sum(2) - hit, zeros.scatter_add(1, own, torch.ones_like(picked)) - hit
    return 1 - ((hit + 1) / (hit + alpha * extra + beta * missed + 1)).mean()


def scans(steps):
    g = torch.Generator().manual_seed(32)
    for _ in range(steps):
        yield torch.randn(BATCH, 1, SIDE, SIDE, SIDE, generator=g).cuda(), torch.randint(0, CLASSES, (BATCH, SIDE, SIDE, SIDE), generator=g).cuda()


def main():
    torch.manual_seed(28)
    net = UNet3D().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.99, nesterov=True)
    overlap = tversky_by_label if FIXED else tversky
    for step, (scan, labels) in enumerate(scans(6)):
        logits = net(scan)
        loss = F.cross_entropy(logits, labels) + overlap(logits.softmax(1), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 12)
        optimizer.step()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
