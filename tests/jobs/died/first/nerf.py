"""A neural radiance field; a whole image is rendered every few steps.

https://github.com/kwea123/ngp_pl/issues/44
"""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
H, W, SAMPLES = 200, 200, 64


class NeRF(nn.Module):
    def __init__(self, width=256, depth=8, freqs=10):
        super().__init__()
        self.freqs = freqs
        self.first = nn.Linear(3 + 6 * freqs, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth - 1))
        self.out = nn.Linear(width, 4)

    def embed(self, x):
        parts = [x]
        for i in range(self.freqs):
            parts += [torch.sin(2 ** i * x), torch.cos(2 ** i * x)]
        return torch.cat(parts, -1)

    def forward(self, x):
        h = torch.relu(self.first(self.embed(x)))
        for layer in self.layers:
            h = torch.relu(layer(h))
        return self.out(h)


def render_rays(model, origins, directions):
    z = torch.linspace(2, 6, SAMPLES, device=origins.device)
    points = origins[:, None] + directions[:, None] * z[None, :, None]
    raw = model(points)
    alpha = 1 - torch.exp(-torch.relu(raw[..., 3]) * (z[1] - z[0]))
    weights = alpha * torch.cumprod(1 - alpha + 1e-10, -1)
    return (weights[..., None] * torch.sigmoid(raw[..., :3])).sum(1)


def render_image(model, chunk):
    origins, directions = (torch.rand(H * W, 3, device="cuda") for _ in range(2))
    pixels = [render_rays(model, o, d).cpu() for o, d in zip(origins.split(chunk), directions.split(chunk))]
    return torch.cat(pixels).view(H, W, 3)


model = NeRF().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
for i in range(9):
    rays_o, rays_d, target = (torch.rand(1024, 3, device="cuda") for _ in range(3))
    loss = ((render_rays(model, rays_o, rays_d) - target) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % 4 == 3:
        with torch.no_grad():
            image = render_image(model, 2048 if FIXED else H * W)
        print(i, loss.item(), image.shape)
