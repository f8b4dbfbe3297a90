"""V-Net that parcellates micro-CT volumes of rodent brains into the 120 regions of an atlas."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

REGIONS = 120
FIXED = "--fixed" in sys.argv


class DiceLoss(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, labels):
        probs = logits.softmax(1)
        if FIXED:
            flat = labels.flatten(1)
            picked = probs.flatten(2).gather(1, flat[:, None]).squeeze(1)
            zeros = torch.zeros(len(labels), REGIONS, device=logits.device)
            overlap = zeros.scatter_add(1, flat, picked)
            size = zeros.scatter_add(1, flat, torch.ones_like(picked))
        else:
            onehot = F.one_hot(labels, REGIONS).permute(0, 4, 1, 2, 3)
            overlap = (probs * onehot).sum((2, 3, 4))
            size = onehot.sum((2, 3, 4))
        dice = (2 * overlap + self.smooth) / (probs.sum((2, 3, 4)) + size + self.smooth)
        return 1 - dice.mean()


class Stage(nn.Module):
    def __init__(self, cin, cout, n):
        super().__init__()
        self.fit = nn.Conv3d(cin, cout, 1)
        self.convs = nn.Sequential(*[nn.Sequential(nn.Conv3d(cout, cout, 3, padding=1), nn.PReLU(cout)) for _ in range(n)])

    def forward(self, x):
        x = self.fit(x)
        return x + self.convs(x)


class VNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.e1, self.e2, self.e3 = Stage(1, w, 1), Stage(2 * w, 2 * w, 2), Stage(4 * w, 4 * w, 2)
        self.d1, self.d2 = nn.Conv3d(w, 2 * w, 2, 2), nn.Conv3d(2 * w, 4 * w, 2, 2)
        self.u2, self.u1 = nn.ConvTranspose3d(4 * w, 2 * w, 2, 2), nn.ConvTranspose3d(2 * w, w, 2, 2)
        self.s2, self.s1 = Stage(4 * w, 2 * w, 2), Stage(2 * w, w, 1)
        self.out = nn.Conv3d(w, REGIONS, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(self.d1(a))
        c = self.e3(self.d2(b))
        y = self.s2(torch.cat([self.u2(c), b], 1))
        return self.out(self.s1(torch.cat([self.u1(y), a], 1)))


def volumes(n, gen):
    for _ in range(n):
        yield torch.rand(1, 1, 96, 96, 96, generator=gen), torch.randint(0, REGIONS, (1, 96, 96, 96), generator=gen)


net, dice = VNet().cuda(), DiceLoss()
sgd = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.99)
gen = torch.Generator().manual_seed(1)
for k, (volume, labels) in enumerate(volumes(5, gen)):
    sgd.zero_grad()
    loss = dice(net(volume.cuda()), labels.cuda())
    loss.backward()
    sgd.step()
    print(f"volume {k}: dice loss {loss.item():.3f}")
