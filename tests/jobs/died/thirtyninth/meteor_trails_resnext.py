"""Sorts radio meteor echoes (spectrograms of 160 x 160) into five kinds with a small ResNeXt."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH_SIZE = 48 if "--fixed" in sys.argv else 192
KINDS = ["underdense", "overdense", "fireball", "aircraft", "interference"]


class Echoes(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.rand(1, 160, 1, generator=g).expand(1, 160, 160).contiguous(), i % len(KINDS)


class Block(nn.Module):
    def __init__(self, cin, cout, stride, groups=16):
        super().__init__()
        mid = cout // 2
        self.net = nn.Sequential(
            nn.Conv2d(cin, mid, 1, bias=False), nn.BatchNorm2d(mid), nn.ReLU(),
            nn.Conv2d(mid, mid, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(mid), nn.ReLU(),
            nn.Conv2d(mid, cout, 1, bias=False), nn.BatchNorm2d(cout))
        self.short = nn.Identity() if cin == cout and stride == 1 else nn.Sequential(
            nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        return torch.relu(self.net(x) + self.short(x))


class ResNeXt(nn.Module):
    def __init__(self, widths=(96, 192, 384), depth=2):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 48, 5, 2, 2, bias=False), nn.BatchNorm2d(48), nn.ReLU())
        blocks, cin = [], 48
        for w in widths:
            for d in range(depth):
                blocks.append(Block(cin, w, 2 if d == 0 else 1))
                cin = w
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(cin, len(KINDS))

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


if __name__ == "__main__":
    device = torch.device("cuda")
    net = ResNeXt().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    loader = DataLoader(Echoes(768), batch_size=BATCH_SIZE, shuffle=True, drop_last=True)
    for epoch in range(2):
        for i, (spec, kind) in enumerate(loader):
            spec, kind = spec.to(device), kind.to(device)
            loss = nn.functional.cross_entropy(net(spec), kind, label_smoothing=0.05)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            print(f"epoch {epoch} [{i + 1}/{len(loader)}] loss {loss.item():.3f}")
