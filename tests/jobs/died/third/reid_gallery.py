"""Person re-identification: after each epoch the query and gallery embeddings are compared by broadcasting.
https://github.com/OML-Team/open-metric-learning/issues/283 , https://github.com/hcw-00/PatchCore_anomaly_detection/issues/19"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument("--fixed", action="store_true")
ap.add_argument("--gallery", type=int, default=6000)
ap.add_argument("--queries", type=int, default=1200)
cfg = ap.parse_args()


class Body(nn.Module):
    def __init__(self, ids=751, dim=256):
        super().__init__()
        ch = [3, 32, 64, 128, 256, 512]
        self.conv = nn.Sequential(*[nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in zip(ch, ch[1:])])
        self.embedding, self.ids = nn.Linear(512 * 8 * 4, dim), nn.Linear(dim, ids)

    def forward(self, x):
        return self.embedding(self.conv(x).flatten(1))


def embeddings(net, n, batch=200):
    return torch.cat([F.normalize(net(torch.zeros(min(batch, n - i), 3, 256, 128).cuda())) for i in range(0, n, batch)])


def distances(q, g):
    if cfg.fixed:
        return torch.cdist(q, g)
    return (q.unsqueeze(1) - g.unsqueeze(0)).pow(2).sum(-1).sqrt()


@torch.no_grad()
def rank1(net):
    net.eval()
    q, g = embeddings(net, cfg.queries), embeddings(net, cfg.gallery)
    best = distances(q, g).argmin(1)
    net.train()
    return best.cpu().unique().numel() / cfg.queries


net = Body().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for epoch in range(2):
    for _ in range(5):
        images, ids = torch.zeros(64, 3, 256, 128).cuda(), torch.randint(0, 751, (64,)).cuda()
        loss = F.cross_entropy(net.ids(net(images)), ids)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item(), "rank-1", rank1(net))
