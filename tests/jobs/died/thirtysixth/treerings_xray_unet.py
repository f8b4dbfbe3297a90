"""Marks ring boundaries on X-ray scans of wood cores (oak, larch) with a U-Net. Scans come as 1024 x 1024 tiles."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

PATCH = 384 if "--fixed" in sys.argv else None      # None: take the scan as it is


class CoreScans(Dataset):
    def __init__(self, n, patch=PATCH, seed=0):
        self.n, self.patch = n, patch
        self.g = torch.Generator().manual_seed(seed)

    def __len__(self):
        return self.n

    def load_scan(self, i):
        density = torch.rand(1, 1024, 1024, generator=self.g)
        rings = (density > 0.97).float()
        return density, rings

    def __getitem__(self, i):
        density, rings = self.load_scan(i)
        if self.patch:
            y, x = torch.randint(0, 1024 - self.patch, (2,), generator=self.g).tolist()
            density = density[:, y:y + self.patch, x:x + self.patch]
            rings = rings[:, y:y + self.patch, x:x + self.patch]
        if torch.rand((), generator=self.g) < 0.5:
            density, rings = density.flip(-1), rings.flip(-1)
        return density.contiguous(), rings.contiguous()


def double_conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class RingNet(nn.Module):
    def __init__(self, base=24, depth=4):
        super().__init__()
        widths = [base * 2 ** k for k in range(depth + 1)]
        self.down = nn.ModuleList([double_conv(1, widths[0])] + [double_conv(a, b) for a, b in zip(widths, widths[1:])])
        self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:])][::-1])
        self.merge = nn.ModuleList([double_conv(2 * a, a) for a in widths[:-1]][::-1])
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        skips = []
        for k, block in enumerate(self.down):
            x = block(x if k == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([up(x), skips.pop()], 1))
        return self.out(x)


def dice(logits, target, eps=1.0):
    p = logits.sigmoid()
    inter = (p * target).sum((1, 2, 3))
    return 1 - ((2 * inter + eps) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + eps)).mean()


if __name__ == "__main__":
    net = RingNet().cuda()
    opt = torch.optim.Adam(net.parameters(), lr=2e-4)
    loader = DataLoader(CoreScans(12), batch_size=2, shuffle=True, drop_last=True)
    for epoch in range(2):
        total = 0.0
        for density, rings in loader:
            density, rings = density.cuda(non_blocking=True), rings.cuda(non_blocking=True)
            logits = net(density)
            loss = F.binary_cross_entropy_with_logits(logits, rings) + dice(logits, rings)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}  mean loss {total / len(loader):.4f}")
