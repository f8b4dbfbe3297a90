"""Takes the speckle out of ultrasound films of tendons: a light separable net, with a data term, total variation and a term of log ratios."""
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class Light(nn.Module):
    """A depthwise and a pointwise convolution."""

    def __init__(self, into, out):
        super().__init__()
        self.deep, self.point = nn.Conv2d(into, into, 5, padding=2, groups=into), nn.Conv2d(into, out, 1)

    def forward(self, x):
        return F.relu(self.point(self.deep(x)), inplace=True)


class Despeckle(nn.Module):
    """Works at a quarter of the resolution and gives all 32 frames of the film at once."""

    def __init__(self, frames=32, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(frames, width, 8, 4, 2), nn.ReLU(True), Light(width, width), Light(width, width), Light(width, 2 * width))
        self.up = nn.ConvTranspose2d(2 * width, frames, 8, 4, 2)

    def forward(self, x):
        return self.up(self.body(x))


def total_variation(x):
    return (x[..., 1:, :] - x[..., :-1, :]).abs().mean() + (x[..., 1:] - x[..., :-1]).abs().mean()


def speckle_loss(clean, noisy):
    """Negative log likelihood of Rayleigh speckle (see the lab's note of 2016, which is written for float64)."""
    if not FIXED:
        clean, noisy = clean.double(), noisy.double()
    level = F.softplus(clean) + 1e-3
    ratio = noisy / level
    likelihood = (torch.log(level) + 0.5 * ratio * ratio).mean()
    return likelihood + 0.1 * total_variation(torch.log(level))


class Films(torch.utils.data.Dataset):
    """Films from the scanner, in bytes."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        film = rng.integers(0, 256, (32, 256, 256), dtype=np.uint8)
        return torch.from_numpy(film).float() / 255


def train():
    torch.manual_seed(23)
    net = Despeckle().cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)
    loader = torch.utils.data.DataLoader(Films(64), batch_size=8, shuffle=True)
    for i, noisy in enumerate(loader):
        noisy = noisy.cuda()
        loss = speckle_loss(net(noisy), noisy)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(i, loss.item())


train()
