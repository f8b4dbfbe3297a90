"""PointNet for clouds of lidar points over moraines: is a block of rock stable, loose or fallen?"""
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--points", type=int, default=2048)
parser.add_argument("--iterations", type=int, default=6)
args = parser.parse_args()
BATCH = 20 if args.fixed else 112


def shared(*widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers)


class Align(nn.Module):
    """The T-Net: a k by k matrix that turns the cloud."""

    def __init__(self, k):
        super().__init__()
        self.k = k
        self.points = shared(k, 64, 128, 512)
        self.matrix = nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, k * k))

    def forward(self, x):
        m = self.matrix(self.points(x).amax(-1)).view(-1, self.k, self.k)
        m = m + torch.eye(self.k, device=x.device)
        return torch.bmm(m, x), m


class MorainePointNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.turn = Align(3)
        self.low = shared(3, 64, 64)
        self.high = shared(64, 128, 1024)
        self.head = nn.Sequential(nn.Linear(1024, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, classes))

    def forward(self, cloud):
        x, m = self.turn(cloud)
        x = self.high(self.low(x)).amax(-1)
        return self.head(x), m


net = MorainePointNet().cuda()
opt = torch.optim.Adam(net.parameters(), 1e-3)
rng = torch.Generator().manual_seed(8)
for it in range(args.iterations):
    cloud = torch.randn(BATCH, 3, args.points, generator=rng).cuda()
    state = torch.randint(3, (BATCH,), generator=rng).cuda()
    logits, m = net(cloud)
    orthogonal = (torch.bmm(m, m.transpose(1, 2)) - torch.eye(3, device="cuda")).pow(2).sum((1, 2)).mean()
    loss = nn.functional.cross_entropy(logits, state) + 1e-3 * orthogonal
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
