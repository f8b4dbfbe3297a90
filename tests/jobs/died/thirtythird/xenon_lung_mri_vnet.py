"""Ventilation defects in hyperpolarised xenon MRI. A small V-Net learns from random cubes of 90 scans."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv
device = "cuda"


class XenonScans(Dataset):
    def __init__(self, n_scans=90, cube=48):
        self.cube = cube
        self.scans, self.masks = [], []
        for i in range(n_scans):
            scan, mask = self._read(i)
            if not FIXED:
                scan, mask = scan.to(device), mask.to(device)
            self.scans.append(scan)
            self.masks.append(mask)

    @staticmethod
    def _read(i):
        shape = (96, 128, 128)
        return torch.full((2, *shape), 0.01 * i), torch.zeros(shape, dtype=torch.long)

    def __len__(self):
        return len(self.scans)

    def __getitem__(self, i):
        scan, c = self.scans[i], self.cube
        z, y, x = ((s - c) // 2 for s in scan.shape[1:])
        window = (slice(z, z + c), slice(y, y + c), slice(x, x + c))
        return scan[(slice(None), *window)], self.masks[i][window]


class VNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.inp = nn.Sequential(nn.Conv3d(2, w, 5, padding=2), nn.PReLU(w))
        self.down = nn.Sequential(nn.Conv3d(w, 2 * w, 2, 2), nn.PReLU(2 * w), nn.Conv3d(2 * w, 2 * w, 5, padding=2), nn.PReLU(2 * w))
        self.up = nn.ConvTranspose3d(2 * w, w, 2, 2)
        self.out = nn.Conv3d(2 * w, 4, 1)

    def forward(self, x):
        a = self.inp(x)
        return self.out(torch.cat([a, self.up(self.down(a))], 1))


dataset = XenonScans()
loader = DataLoader(dataset, batch_size=4, shuffle=True)
net = VNet().to(device)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for epoch in range(1):
    for n, (scan, mask) in enumerate(loader):
        loss = nn.functional.cross_entropy(net(scan.to(device)), mask.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if n % 5 == 0:
            print(f"epoch {epoch} batch {n} loss {loss.item():.4f}")
