"""A small network for the bonding machine's camera learns wire-bond defects from a wide one that the lab trained (logits and features)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class Bottleneck(nn.Module):
    def __init__(self, cin, mid, stride=1):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(cin, mid, 1, bias=False), nn.BatchNorm2d(mid), nn.ReLU(),
            nn.Conv2d(mid, mid, 3, stride, 1, bias=False), nn.BatchNorm2d(mid), nn.ReLU(),
            nn.Conv2d(mid, 4 * mid, 1, bias=False), nn.BatchNorm2d(4 * mid))
        self.short = nn.Identity() if stride == 1 and cin == 4 * mid else nn.Conv2d(cin, 4 * mid, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.conv(x) + self.short(x))


def lab_network(classes=11):
    return nn.ModuleDict({
        "features": nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(2), Bottleneck(64, 64), Bottleneck(256, 64), Bottleneck(256, 64),
                                  Bottleneck(256, 128, 2), Bottleneck(512, 128), Bottleneck(512, 128)),
        "head": nn.Linear(512, classes)})


def separable(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cin, 3, stride, 1, groups=cin, bias=False), nn.BatchNorm2d(cin), nn.ReLU6(),
                         nn.Conv2d(cin, cout, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU6())


def camera_network(classes=11):
    return nn.ModuleDict({
        "features": nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU6(), separable(16, 32, 2), separable(32, 64, 2), separable(64, 128, 1)),
        "match": nn.Conv2d(128, 512, 1), "head": nn.Linear(128, classes)})


class Distiller:
    def __init__(self, T=4.0, alpha=0.7):
        self.big = lab_network().cuda().eval()
        self.small = camera_network().cuda()
        self.T, self.alpha = T, alpha
        self.opt = torch.optim.SGD(self.small.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    def ask_big(self, x):
        maps = self.big["features"](x)
        return maps, self.big["head"](maps.mean((2, 3)))

    def update(self, x, y):
        with torch.set_grad_enabled(not FIXED):
            want_maps, want = self.ask_big(x)
        maps = self.small["features"](x)
        got = self.small["head"](maps.mean((2, 3)))
        soft = F.kl_div(F.log_softmax(got / self.T, 1), F.softmax(want / self.T, 1), reduction="batchmean") * self.T ** 2
        loss = self.alpha * soft + (1 - self.alpha) * F.cross_entropy(got, y) + 0.1 * F.mse_loss(self.small["match"](maps), want_maps)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


distiller = Distiller()
for step in range(10):
    print(step, distiller.update(torch.zeros(24, 3, 256, 256).cuda(), torch.arange(24).remainder(11).cuda()))
