"""BYOL for spectrograms of starlings: an online network predicts what the target network makes of another view; the target follows slowly."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

fixed = "--fixed" in sys.argv
device = torch.device("cuda")


def conv(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.GELU())


class Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(conv(c, c, 1), conv(c, c, 1))

    def forward(self, x):
        return x + self.body(x)


class Encoder(nn.Module):
    """A small ResNet and a projector."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(conv(1, 48, 2), Residual(48), Residual(48), conv(48, 96, 2), Residual(96), Residual(96), conv(96, 192, 2), Residual(192),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.projector = nn.Sequential(nn.Linear(192, 1024), nn.BatchNorm1d(1024), nn.ReLU(), nn.Linear(1024, 128))

    def forward(self, x):
        return self.projector(self.net(x))


class BYOL(nn.Module):
    """Online network, target network, predictor."""

    def __init__(self, momentum=0.99):
        super().__init__()
        self.momentum = momentum
        self.online = Encoder()
        self.target = copy.deepcopy(self.online)
        self.predictor = nn.Sequential(nn.Linear(128, 1024), nn.BatchNorm1d(1024), nn.ReLU(), nn.Linear(1024, 128))

    @torch.no_grad()
    def follow(self):
        for p, q in zip(self.online.parameters(), self.target.parameters()):
            q.lerp_(p, 1 - self.momentum)

    def aims(self, one, two):
        if fixed:
            with torch.no_grad():
                return self.target(one), self.target(two)
        return self.target(one), self.target(two)

    def forward(self, one, two):
        aim_one, aim_two = self.aims(one, two)
        p, q = self.predictor(self.online(one)), self.predictor(self.online(two))
        return 4 - 2 * F.cosine_similarity(p, aim_two).mean() - 2 * F.cosine_similarity(q, aim_one).mean()


def view(spectrograms):
    """Another loudness, and a band of frequencies left out."""
    louder = spectrograms * (0.7 + 0.6 * torch.rand(len(spectrograms), 1, 1, 1, device=device))
    band = torch.ones(64, device=device)
    band[20:28] = 0
    return louder * band[:, None]


def main():
    torch.manual_seed(11)
    byol = BYOL().to(device)
    optimizer = torch.optim.Adam([*byol.online.parameters(), *byol.predictor.parameters()], lr=3e-4)
    for step in range(6):
        sounds = torch.rand(96, 1, 64, 192).to(device)
        loss = byol(view(sounds), view(sounds))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        byol.follow()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
