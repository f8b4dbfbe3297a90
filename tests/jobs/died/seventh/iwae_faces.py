"""Trains an importance-weighted autoencoder on small faces; the bound is tighter the more samples the decoder sees of each face."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=50)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--latent", type=int, default=64)
parser.add_argument("--fixed", action="store_true")
opt = parser.parse_args()
if opt.fixed:
    opt.samples = 8


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(i, o, 4, 2, 1) for i, o in [(3, 32), (32, 64), (64, 128), (128, 256)])
        self.mean, self.log_scale = nn.Linear(256 * 16, opt.latent), nn.Linear(256 * 16, opt.latent)

    def forward(self, x):
        for conv in self.convs:
            x = F.elu(conv(x))
        x = x.flatten(1)
        return self.mean(x), self.log_scale(x).clamp(-6, 3)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Linear(opt.latent, 128 * 16)
        self.ups = nn.ModuleList(nn.ConvTranspose2d(i, o, 4, 2, 1) for i, o in [(128, 64), (64, 48), (48, 32)])
        self.last = nn.ConvTranspose2d(32, 3, 4, 2, 1)

    def forward(self, z):
        x = F.elu(self.start(z)).view(-1, 128, 4, 4)
        for up in self.ups:
            x = F.elu(up(x))
        return self.last(x)


class IWAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def bound(self, x, k):
        mean, log_scale = self.encoder(x)
        noise = torch.randn(k, *mean.shape, device=x.device)
        z = mean + log_scale.exp() * noise
        log_prior = -0.5 * (z ** 2 + math.log(2 * math.pi)).sum(-1)
        log_posterior = -(0.5 * noise ** 2 + log_scale + 0.5 * math.log(2 * math.pi)).sum(-1)
        faces = self.decoder(z.flatten(0, 1)).unflatten(0, (k, len(x)))
        log_likelihood = -F.binary_cross_entropy_with_logits(faces, x.expand_as(faces), reduction="none").sum((2, 3, 4))
        weights = log_likelihood + log_prior - log_posterior
        return (torch.logsumexp(weights, 0) - math.log(k)).mean()


def main():
    model = IWAE().cuda()
    optimizer = torch.optim.Adamax(model.parameters(), lr=1e-3)
    for step in range(5):
        faces = torch.zeros(opt.batch, 3, 64, 64).cuda()
        loss = -model.bound(faces, opt.samples)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, "bound", -loss.item())


if __name__ == "__main__":
    main()
