"""Fits a photograph of kites over a beach with two-dimensional Gaussians: centre, scale, angle, colour and weight of each."""
import math
import sys

import torch
from torch.utils.checkpoint import checkpoint

HEIGHT, WIDTH, COUNT = 240, 320, 1200
BAND = 12  # rows of the picture


class Splats(torch.nn.Module):
    def __init__(self):
        super().__init__()
        g = torch.Generator().manual_seed(12)
        self.centre = torch.nn.Parameter(torch.rand(COUNT, 2, generator=g))
        self.scale = torch.nn.Parameter(torch.full((COUNT, 2), math.log(0.03)))
        self.angle = torch.nn.Parameter(torch.rand(COUNT, generator=g) * math.pi)
        self.colour = torch.nn.Parameter(torch.rand(COUNT, 3, generator=g))
        self.weight = torch.nn.Parameter(torch.zeros(COUNT))

    def paint(self, points):
        """Colours at the points, (N, 2) -> (N, 3)."""
        delta = points[:, None] - self.centre[None]
        cos, sin = self.angle.cos(), self.angle.sin()
        along = cos * delta[..., 0] + sin * delta[..., 1]
        across = cos * delta[..., 1] - sin * delta[..., 0]
        size = self.scale.exp()
        density = torch.exp(-0.5 * ((along / size[:, 0]) ** 2 + (across / size[:, 1]) ** 2))
        share = density * self.weight.sigmoid()
        return share @ self.colour


def grid(device):
    y, x = torch.meshgrid(torch.linspace(0, 1, HEIGHT), torch.linspace(0, 1, WIDTH), indexing="ij")
    return torch.stack([x, y], -1).view(-1, 2).to(device)


def render(splats, points):
    if "--fixed" not in sys.argv:
        return splats.paint(points)
    bands = [checkpoint(splats.paint, band, use_reentrant=False) for band in points.split(BAND * WIDTH)]
    return torch.cat(bands)


if __name__ == "__main__":
    device = torch.device("cuda")
    photograph = torch.rand(HEIGHT * WIDTH, 3).to(device)
    splats, points = Splats().to(device), grid(device)
    optimizer = torch.optim.Adam([{"params": [splats.centre, splats.scale, splats.angle], "lr": 2e-3},
                                  {"params": [splats.colour, splats.weight], "lr": 2e-2}])
    for iteration in range(12):
        picture = render(splats, points)
        loss = (picture - photograph).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if iteration % 4 == 3:
            print(f"iteration {iteration + 1}: {loss.item():.4f}")
