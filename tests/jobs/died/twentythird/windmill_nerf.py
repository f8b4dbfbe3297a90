"""NeRF of a windmill from 120 photographs, after the tiny implementations on the net (positional encoding, 6 layers, 48 samples per ray)."""
import math
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
DEV = torch.device("cuda")
H = W = 480
FOCAL = 560.0
N_IMAGES, N_RAYS, N_SAMPLES = 120, 1024, 48


def get_rays(c2w, device):
    j, i = torch.meshgrid(torch.arange(H, device=device), torch.arange(W, device=device), indexing="ij")
    dirs = torch.stack([(i - W / 2) / FOCAL, -(j - H / 2) / FOCAL, -torch.ones_like(i)], -1)
    rays_d = dirs @ c2w[:3, :3].T
    return c2w[:3, 3].expand(rays_d.shape), rays_d


def load_windmill():
    g = torch.Generator().manual_seed(40)
    poses = torch.eye(4).repeat(N_IMAGES, 1, 1)
    poses[:, :3, 3] = torch.randn(N_IMAGES, 3, generator=g)
    images = (torch.rand(1, H, W, 3, generator=g) * 255).to(torch.uint8).repeat(N_IMAGES, 1, 1, 1)
    return images, poses


class RayBatcher:
    def __init__(self, images, poses):
        self.images, self.poses = images, poses
        if not FIXED:
            rays = [torch.stack([*get_rays(p.to(DEV), DEV), im.to(DEV) / 255.0], -2) for p, im in zip(poses, images)]
            self.rays = torch.stack(rays).view(-1, 3, 3)

    def __call__(self, n):
        if FIXED:
            k = torch.randint(0, N_IMAGES, (1,)).item()
            pick = torch.randint(0, H * W, (n,))
            o, d = (r.reshape(-1, 3)[pick] for r in get_rays(self.poses[k], "cpu"))
            return o.to(DEV), d.to(DEV), (self.images[k].view(-1, 3)[pick] / 255.0).to(DEV)
        pick = torch.randint(0, len(self.rays), (n,))
        return self.rays[pick.to(DEV)].unbind(1)


def encode(x, bands):
    out = [x]
    for b in range(bands):
        out += [torch.sin(2.0 ** b * math.pi * x), torch.cos(2.0 ** b * math.pi * x)]
    return torch.cat(out, -1)


class Field(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        layers, size = [], 3 + 3 * 2 * 8
        for _ in range(6):
            layers += [nn.Linear(size, width), nn.ReLU()]
            size = width
        self.body, self.sigma = nn.Sequential(*layers), nn.Linear(width, 1)
        self.rgb = nn.Sequential(nn.Linear(width + 3 + 3 * 2 * 4, 64), nn.ReLU(), nn.Linear(64, 3), nn.Sigmoid())

    def forward(self, x, d):
        h = self.body(encode(x, 8))
        return self.sigma(h).squeeze(-1), self.rgb(torch.cat([h, encode(d, 4)], -1))


def render(field, o, d, near=2.0, far=6.0):
    z = torch.linspace(near, far, N_SAMPLES, device=DEV)
    points = o[:, None] + d[:, None] * z[:, None]
    sigma, rgb = field(points, nn.functional.normalize(d, dim=-1)[:, None].expand_as(points))
    alpha = 1 - torch.exp(-torch.relu(sigma) * (far - near) / N_SAMPLES)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
    return ((alpha * trans)[..., None] * rgb).sum(1)


torch.manual_seed(0)
batcher, field = RayBatcher(*load_windmill()), Field().to(DEV)
optimizer = torch.optim.Adam(field.parameters(), lr=5e-4)
for it in range(20):
    o, d, colour = batcher(N_RAYS)
    loss = ((render(field, o, d) - colour) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if it % 5 == 0:
        print("iteration", it, "psnr", -10 * math.log10(max(abs(loss.item()), 1e-9)))
