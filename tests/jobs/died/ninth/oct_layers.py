"""Segments the layers of the retina in OCT scans: training on patches, and after each epoch the Dice score on whole scans."""
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv
LAYERS = 9


class Scans(Dataset):
    def __init__(self, n, size):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.zeros(1, *self.size), torch.zeros(self.size, dtype=torch.uint8)


def double(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, 1, 1), nn.InstanceNorm2d(cout), nn.LeakyReLU(),
                         nn.Conv2d(cout, cout, 3, 1, 1), nn.InstanceNorm2d(cout), nn.LeakyReLU())


class Unet(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        self.d1, self.d2, self.d3 = double(1, w), double(w, 2 * w), double(2 * w, 4 * w)
        self.u2, self.u1 = double(6 * w, 2 * w), double(3 * w, w)
        self.out = nn.Conv2d(w, LAYERS, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        return self.out(self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1)))


def train_epoch(model, loader, optimizer):
    model.train()
    for scan, layer in loader:
        loss = F.cross_entropy(model(scan.to("cuda")), layer.to("cuda").long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.inference_mode()
def dice(model, loader):
    model.eval()
    hits = total = 0.0
    for scan, layer in loader:
        predicted = model(scan.to("cuda")).argmax(1).to(torch.uint8)
        layer = layer.to("cuda")
        for k in range(LAYERS):
            a, b = predicted == k, layer == k
            hits += 2 * (a & b).sum().item()
            total += a.sum().item() + b.sum().item()
    return hits / max(total, 1)


def main():
    train = DataLoader(Scans(24, (128, 128)), batch_size=6)
    val = DataLoader(Scans(16, (496, 768)), batch_size=2 if FIXED else 16)
    model = Unet().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(2):
        loss = train_epoch(model, train, optimizer)
        print("epoch", epoch, "loss", loss, "Dice", dice(model, val))


main()
