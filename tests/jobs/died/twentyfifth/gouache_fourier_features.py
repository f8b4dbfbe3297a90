"""One small network for each gouache: (x, y) -> colour with Fourier features, to compress the museum's scans."""
import functools
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
FREQUENCIES = 128
torch.manual_seed(0)
B = torch.randn(2, FREQUENCIES) * 10


@functools.lru_cache(maxsize=1 if FIXED else None)
def features(height, width):
    ys, xs = torch.linspace(0, 1, height, device="cuda"), torch.linspace(0, 1, width, device="cuda")
    grid = torch.stack(torch.meshgrid(ys, xs, indexing="ij"), -1).view(-1, 2)
    angle = 2 * torch.pi * grid @ B.cuda()
    return torch.cat([angle.sin(), angle.cos()], -1)


def scans(count=26):
    gen = torch.Generator().manual_seed(1888)
    for number in range(count):
        height, width = torch.randint(300, 480, (2,), generator=gen).tolist()
        yield number, torch.rand(height, width, 3, generator=gen)


def network():
    layers, width = [], 2 * FREQUENCIES
    for _ in range(3):
        layers += [nn.Linear(width, 128), nn.ReLU()]
        width = 128
    return nn.Sequential(*layers, nn.Linear(width, 3), nn.Sigmoid())


def compress(picture, steps=15, pixels=4096):
    height, width, _ = picture.shape
    net = network().cuda()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    colours = picture.view(-1, 3)
    for _ in range(steps):
        pick = torch.randint(0, height * width, (pixels,))
        guess = net(features(height, width)[pick.cuda()])
        loss = (guess - colours[pick].cuda()).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return {k: v.half().cpu() for k, v in net.state_dict().items()}, loss.item()


archive = {}
for number, picture in scans():
    archive[number], error = compress(picture)
    print(f"gouache {number}: {tuple(picture.shape[:2])}, error {error:.5f}")
print(len(archive), "gouaches")
