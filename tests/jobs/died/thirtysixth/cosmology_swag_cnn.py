"""Omega_m and sigma_8 from maps of weak lensing, with SWAG (low rank plus diagonal) for the uncertainty of the network."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(70)
STORE = "cpu" if "--fixed" in sys.argv else "cuda"


class LensingCNN(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, c = [], 1
        for w in (32, 64, 128, 256):
            blocks += [nn.Conv2d(c, w, 3, stride=2, padding=1), nn.BatchNorm2d(w), nn.LeakyReLU(0.1)]
            c = w
        self.features = nn.Sequential(*blocks)
        self.regress = nn.Sequential(nn.Flatten(), nn.Linear(256 * 8 * 8, 1024), nn.LeakyReLU(0.1), nn.Linear(1024, 256),
                                     nn.LeakyReLU(0.1), nn.Linear(256, 2))

    def forward(self, kappa):
        return self.regress(self.features(kappa))


class SWAG:
    def __init__(self, net, max_rank=30):
        self.max_rank, self.n = max_rank, 0
        flat = self.flatten(net)
        self.mean, self.square = torch.zeros_like(flat), torch.zeros_like(flat)
        self.deviations = []

    @staticmethod
    def flatten(net):
        return torch.cat([p.detach().flatten() for p in net.parameters()]).to(STORE)

    def collect(self, net):
        w = self.flatten(net)
        self.mean = (self.mean * self.n + w) / (self.n + 1)
        self.square = (self.square * self.n + w ** 2) / (self.n + 1)
        self.deviations.append(w - self.mean)
        self.deviations = self.deviations[-self.max_rank:]
        self.n += 1

    def sample(self, net):
        diagonal = (self.square - self.mean ** 2).clamp(min=1e-12).sqrt() * torch.randn_like(self.mean) / 2 ** 0.5
        w = self.mean + diagonal
        for d in self.deviations:
            w.add_(d, alpha=torch.randn(()).item() / (2 * (len(self.deviations) - 1)) ** 0.5)
        nn.utils.vector_to_parameters(w.cuda(), net.parameters())


def maps(n, batch=16):
    for _ in range(n):
        yield torch.randn(batch, 1, 128, 128), torch.rand(batch, 2)


def main():
    net = LensingCNN().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    swag = SWAG(net)
    for epoch in range(24):
        for kappa, theta in maps(3):
            loss = F.mse_loss(net(kappa.cuda()), theta.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch >= 2:
            swag.collect(net)
        print("epoch", epoch, "mse", loss.item())
    net.eval()
    kappa, _ = next(maps(1, 64))
    draws = []
    with torch.no_grad():
        for _ in range(4):
            swag.sample(net)
            draws.append(net(kappa.cuda()).cpu())
    print("spread", torch.stack(draws).std(0).mean(0).tolist())


main()
