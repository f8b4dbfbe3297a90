"""Deep embedded clustering of insects in amber, from descriptors of micro-CT scans (after Xie et al.). First the autoencoder, then the clusters."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

DIM, CODE, CLUSTERS = 768, 64, 320


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(DIM, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CODE))
        self.decoder = nn.Sequential(nn.Linear(CODE, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, DIM))

    def forward(self, x):
        return self.decoder(self.encoder(x))


class StudentT(nn.Module):
    """Soft assignment of codes to centres by Student's t with one degree of freedom."""

    def __init__(self, centres):
        super().__init__()
        self.centres = nn.Parameter(centres)

    def forward(self, z):
        if "--fixed" in sys.argv:
            d2 = z.square().sum(1, keepdim=True) - 2 * z @ self.centres.T + self.centres.square().sum(1)
        else:
            d2 = ((z.unsqueeze(1) - self.centres.unsqueeze(0)) ** 2).sum(2)
        q = 1.0 / (1.0 + d2)
        return q / q.sum(1, keepdim=True)


def target(q):
    weight = q ** 2 / q.sum(0)
    return (weight / weight.sum(1, keepdim=True)).detach()


def batches(data, size):
    for part in data.split(size):
        yield part.cuda()


def pretrain(net, data):
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(2):
        for x in batches(data, 1024):
            loss = F.mse_loss(net(F.dropout(x, 0.2)), x)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("autoencoder", epoch, loss.item())


def cluster(net, data):
    with torch.no_grad():
        picked = torch.randperm(len(data), generator=torch.Generator().manual_seed(2))[:CLUSTERS]
        head = StudentT(net.encoder(data[picked].cuda())).cuda()
    opt = torch.optim.Adam([*net.encoder.parameters(), *head.parameters()], lr=1e-4)
    for epoch in range(2):
        for x in batches(data, 8192):
            q = head(net.encoder(x))
            loss = F.kl_div(q.log(), target(q), reduction="batchmean")
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("clusters", epoch, loss.item())


if __name__ == "__main__":
    inclusions = torch.rand(24576, DIM, generator=torch.Generator().manual_seed(1))
    net = Autoencoder().cuda()
    pretrain(net, inclusions)
    cluster(net, inclusions)
