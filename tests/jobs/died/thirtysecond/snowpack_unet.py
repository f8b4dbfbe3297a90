"""U-Net that maps snow depth from Sentinel scenes (4 bands) over the Alps."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

cfg = dict(tile=256 if args.fixed else 704, batch_size=6, lr=1e-3, base=32)


class SnowDataset(Dataset):
    def __init__(self, n, size):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        scene = torch.rand(4, 704, 704, generator=g)
        depth = torch.rand(1, 704, 704, generator=g) * 3
        top, left = torch.randint(0, 704 - self.size + 1, (2,), generator=g).tolist()
        window = (slice(None), slice(top, top + self.size), slice(left, left + self.size))
        return scene[window].contiguous(), depth[window].contiguous()


def double_conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True),
                         nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True))


class UNet(nn.Module):
    def __init__(self, base):
        super().__init__()
        chans = [4, base, base * 2, base * 4, base * 8]
        self.down = nn.ModuleList(double_conv(a, b) for a, b in zip(chans, chans[1:]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(chans[1:-1], chans[2:]))
        self.dec = nn.ModuleList(double_conv(2 * a, a) for a in chans[1:-1])
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for i in reversed(range(len(self.up))):
            x = self.dec[i](torch.cat([self.up[i](x), skips[i]], 1))
        return self.out(x)


net = UNet(cfg["base"]).cuda()
opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
loader = DataLoader(SnowDataset(18, cfg["tile"]), batch_size=cfg["batch_size"], shuffle=True)
for epoch in range(args.epochs):
    for img, depth in loader:
        img, depth = img.cuda(), depth.cuda()
        opt.zero_grad()
        loss = F.l1_loss(net(img), depth)
        loss.backward()
        opt.step()
    print(f"epoch {epoch} l1 {loss.item():.4f}")
