# place recognition for the delivery robot; NetVLAD pooling + triplet margin, weakly supervised
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self, out=256):
        super().__init__()
        chans = [3, 16, 48, 128, out]
        self.blocks = nn.Sequential(*[
            nn.Sequential(nn.Conv2d(i, o, 3, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)) for i, o in zip(chans, chans[1:])])

    def forward(self, x):
        return self.blocks(x)


class NetVLAD(nn.Module):
    """VLAD with soft assignment, Arandjelovic et al. 2016."""

    def __init__(self, num_clusters=64, dim=256, alpha=50.0):
        super().__init__()
        self.conv = nn.Conv2d(dim, num_clusters, 1)
        self.centroids = nn.Parameter(torch.rand(num_clusters, dim))
        self.conv.weight.data.copy_((2.0 * alpha * self.centroids.data)[..., None, None])

    def aggregate(self, x, a):
        residual = x.unsqueeze(1) - self.centroids[None, :, :, None]          # N K C P
        return (residual * a.unsqueeze(2)).sum(-1)

    def forward(self, x):
        x = F.normalize(x, p=2, dim=1)
        a = F.softmax(self.conv(x).flatten(2), dim=1)                         # N K P
        x = x.flatten(2)                                                      # N C P
        vlad = self.aggregate(x, a)
        return F.normalize(F.normalize(vlad, p=2, dim=2).flatten(1), p=2, dim=1)


class LeanNetVLAD(NetVLAD):
    def aggregate(self, x, a):
        return torch.einsum("nkp,ncp->nkc", a, x) - a.sum(-1, keepdim=True) * self.centroids


class PlaceNet(nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.backbone, self.pool = Backbone(), pool

    def forward(self, x):
        return self.pool(self.backbone(x))


def triplets(n, count):
    for _ in range(count):
        yield tuple(torch.zeros(n, 3, 240, 320) for _ in range(3))


def main():
    net = PlaceNet(LeanNetVLAD() if "--fixed" in sys.argv else NetVLAD()).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    for i, (query, positive, negative) in enumerate(triplets(8, 10)):
        q, p, n = net(torch.cat([query, positive, negative]).cuda()).chunk(3)
        loss = F.triplet_margin_loss(q, p, n, margin=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("batch %d loss %.4f" % (i, loss.item()))


main()
