"""Flat spots on train wheels, from a test rig to the line: features of both are brought together by a maximum mean discrepancy with several kernels."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
BATCH, BANDWIDTHS = 640, (0.25, 0.5, 1.0, 2.0, 4.0)


class Features(nn.Module):
    """Convolutions over the vibration of one turn of a wheel."""

    def __init__(self):
        super().__init__()
        widths = (1, 32, 64, 128)
        self.convolutions = nn.Sequential(*(nn.Sequential(nn.Conv1d(a, b, 9, 4, 4), nn.BatchNorm1d(b), nn.ReLU()) for a, b in zip(widths, widths[1:])))
        self.flat = nn.Sequential(nn.Flatten(), nn.Linear(128 * 16, 256), nn.ReLU())

    def forward(self, x):
        return self.flat(self.convolutions(x))


def squared_distances(a):
    if FIXED:
        squares = a.pow(2).sum(1)
        return (squares[:, None] + squares[None, :] - 2 * a @ a.T).clamp(min=0)
    return (a.unsqueeze(0) - a.unsqueeze(1)).pow(2).sum(2)


def mmd(source, target):
    distances = squared_distances(torch.cat([source, target]))
    mean = distances.detach().mean()
    kernel = sum((-distances / (w * mean)).exp() for w in BANDWIDTHS)
    n = len(source)
    return kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2 * kernel[:n, n:].mean()


def rig(g):
    return torch.randn(BATCH, 1, 1024, generator=g).cuda(), torch.randint(0, 3, (BATCH,), generator=g).cuda()


def line(g):
    return torch.randn(BATCH, 1, 1024, generator=g).mul(1.3).cuda()


def main():
    torch.manual_seed(40)
    features, head = Features().cuda(), nn.Linear(256, 3).cuda()
    optimizer = torch.optim.SGD([*features.parameters(), *head.parameters()], lr=0.01, momentum=0.9, nesterov=True)
    g = torch.Generator().manual_seed(1)
    for step in range(8):
        (x, y), z = rig(g), line(g)
        on_rig, on_line = features(x), features(z)
        classes = nn.functional.cross_entropy(head(on_rig), y)
        apart = mmd(on_rig, on_line)
        loss = classes + (step + 1) / 8 * apart
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "classes", classes.item(), "apart", apart.item())


if __name__ == "__main__":
    main()
