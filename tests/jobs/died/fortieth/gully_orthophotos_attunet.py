# Segment erosion gullies in drone orthophotos (RGB + NIR + slope). Attention U-Net after Oktay et al.
import argparse
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader

ap = argparse.ArgumentParser()
ap.add_argument("--fixed", action="store_true")
ap.add_argument("--lr", type=float, default=2e-4)
args = ap.parse_args()
SIDE = 512 if args.fixed else 1024


class OrthoTiles(Dataset):
    def __init__(self, n, side):
        self.n, self.side = n, side

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        img = torch.rand(5, self.side, self.side, generator=g)
        gully = (img[4:] > 0.8).float()
        return img, gully


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Gate(nn.Module):
    def __init__(self, skip, gating):
        super().__init__()
        self.ws, self.wg = nn.Conv2d(skip, skip // 2, 1), nn.Conv2d(gating, skip // 2, 1)
        self.psi = nn.Conv2d(skip // 2, 1, 1)

    def forward(self, s, g):
        a = torch.sigmoid(self.psi(F.relu(self.ws(s) + self.wg(g))))
        return s * a


class AttUNet(nn.Module):
    def __init__(self, w=(24, 48, 96, 192)):
        super().__init__()
        self.enc = nn.ModuleList([block(i, o) for i, o in zip((5,) + w[:-1], w)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(w[k], w[k - 1], 2, 2) for k in (3, 2, 1)])
        self.gates = nn.ModuleList([Gate(w[k - 1], w[k - 1]) for k in (3, 2, 1)])
        self.dec = nn.ModuleList([block(2 * w[k - 1], w[k - 1]) for k in (3, 2, 1)])
        self.out = nn.Conv2d(w[0], 1, 1)

    def forward(self, x):
        skips = []
        for e in self.enc[:-1]:
            x = e(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.enc[-1](x)
        for up, gate, dec in zip(self.up, self.gates, self.dec):
            x = up(x)
            x = dec(torch.cat([gate(skips.pop(), x), x], 1))
        return self.out(x)


def dice(p, t):
    p = p.sigmoid()
    return 1 - 2 * (p * t).sum() / (p.sum() + t.sum() + 1)


net = AttUNet().cuda()
opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
loader = DataLoader(OrthoTiles(15, SIDE), batch_size=3)
for epoch in range(2):
    run = 0.0
    for img, gully in loader:
        img, gully = img.cuda(non_blocking=True), gully.cuda(non_blocking=True)
        pred = net(img)
        loss = F.binary_cross_entropy_with_logits(pred, gully) + dice(pred, gully)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        run += loss.item()
    print(f"epoch {epoch}: {run / len(loader):.3f}")
