"""Compresses the expression of 18,000 genes in single cells with a wide autoencoder under a negative binomial likelihood."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
GENES, WIDE, LATENT, CELLS = 18_000, 1500, 32, 128


class CellAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(GENES, WIDE), nn.LayerNorm(WIDE), nn.ReLU(), nn.Linear(WIDE, 256), nn.ReLU(), nn.Linear(256, LATENT))
        self.decode = nn.Sequential(nn.Linear(LATENT, 256), nn.ReLU(), nn.Linear(256, WIDE), nn.LayerNorm(WIDE), nn.ReLU())
        self.rate = nn.Linear(WIDE, GENES)
        self.dispersion = nn.Parameter(torch.zeros(GENES))

    def forward(self, counts):
        library = counts.sum(-1, keepdim=True) + 1
        z = self.encode(torch.log1p(counts / library * 1e4))
        return F.softmax(self.rate(self.decode(z)), -1) * library, self.dispersion.exp()


def negative_binomial(counts, mean, theta):
    log_sum = torch.log(theta + mean + 1e-8)
    likelihood = (theta * (torch.log(theta + 1e-8) - log_sum) + counts * (torch.log(mean + 1e-8) - log_sum)
                  + torch.lgamma(counts + theta) - torch.lgamma(theta) - torch.lgamma(counts + 1))
    return -likelihood.sum(-1).mean()


class Cells(torch.utils.data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        cell = torch.zeros(GENES)
        cell[k % 97::97] = 1.0 + k % 5
        return cell


def optimizer_of(parameters):
    if FIXED:
        return torch.optim.SGD(parameters, lr=0.01)
    return torch.optim.Adam(parameters, lr=1e-3)


def main():
    model = CellAutoencoder().cuda()
    optimizer = optimizer_of(model.parameters())
    loader = torch.utils.data.DataLoader(Cells(CELLS * 5), batch_size=CELLS)
    for step, counts in enumerate(loader):
        counts = counts.cuda()
        mean, theta = model(counts)
        loss = negative_binomial(counts, mean, theta)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
