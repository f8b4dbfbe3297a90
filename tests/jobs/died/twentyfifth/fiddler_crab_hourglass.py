"""Stacked hourglass that finds 14 joints of fiddler crabs in frames from the mudflat camera."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F

SIDE = 384 if "--fixed" in sys.argv else 768
JOINTS = 14


class Residual(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        mid = cout // 2
        self.seq = nn.Sequential(
            nn.BatchNorm2d(cin), nn.ReLU(), nn.Conv2d(cin, mid, 1),
            nn.BatchNorm2d(mid), nn.ReLU(), nn.Conv2d(mid, mid, 3, padding=1),
            nn.BatchNorm2d(mid), nn.ReLU(), nn.Conv2d(mid, cout, 1))
        self.skip = nn.Identity() if cin == cout else nn.Conv2d(cin, cout, 1)

    def forward(self, x):
        return self.seq(x) + self.skip(x)


class Hourglass(nn.Module):
    def __init__(self, depth, ch):
        super().__init__()
        self.up = Residual(ch, ch)
        self.low_in = Residual(ch, ch)
        self.inner = Hourglass(depth - 1, ch) if depth > 1 else Residual(ch, ch)
        self.low_out = Residual(ch, ch)

    def forward(self, x):
        low = self.low_out(self.inner(self.low_in(F.max_pool2d(x, 2))))
        return self.up(x) + F.interpolate(low, scale_factor=2)


class CrabNet(nn.Module):
    def __init__(self, ch=128, stacks=2):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), Residual(64, ch))
        self.glasses = nn.ModuleList(Hourglass(4, ch) for _ in range(stacks))
        self.heads = nn.ModuleList(nn.Conv2d(ch, JOINTS, 1) for _ in range(stacks))
        self.back = nn.ModuleList(nn.Conv2d(JOINTS, ch, 1) for _ in range(stacks))

    def forward(self, x):
        x, maps = self.stem(x), []
        for glass, head, back in zip(self.glasses, self.heads, self.back):
            y = glass(x)
            maps.append(head(y))
            x = x + y + back(maps[-1])
        return maps


def gaussians(joints, side, sigma=2.0):
    r = torch.arange(side).float()
    gx = torch.exp(-((r - joints[..., :1] * side) ** 2) / (2 * sigma ** 2))
    gy = torch.exp(-((r - joints[..., 1:] * side) ** 2) / (2 * sigma ** 2))
    return gy[..., :, None] * gx[..., None, :]


g = torch.Generator().manual_seed(5)
net = CrabNet().cuda()
opt = torch.optim.RMSprop(net.parameters(), lr=2.5e-4)
for it in range(6):
    frames = torch.rand(6, 3, SIDE, SIDE, generator=g)
    target = gaussians(torch.rand(6, JOINTS, 2, generator=g), SIDE // 4).cuda()
    loss = sum(F.mse_loss(m, target) for m in net(frames.cuda()))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"iter {it} heatmap loss {loss.item():.5f}")
