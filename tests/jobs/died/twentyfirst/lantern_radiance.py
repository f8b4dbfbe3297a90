"""Radiance field of a brass lantern: trains on random rays, and renders a held-out view every few iterations."""
import sys

import torch
import torch.nn as nn

H = W = 160
N_SAMPLES = 64
CHUNK = 4096 if "--fixed" in sys.argv else H * W


def posenc(x, n_freqs=6):
    out = [x]
    for k in range(n_freqs):
        out += [torch.sin(2.0 ** k * x), torch.cos(2.0 ** k * x)]
    return torch.cat(out, -1)


class Field(nn.Module):
    def __init__(self, hidden=192, depth=6):
        super().__init__()
        dims = [39] + [hidden] * depth
        self.trunk = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.sigma = nn.Linear(hidden, 1)
        self.rgb = nn.Sequential(nn.Linear(hidden, 96), nn.ReLU(), nn.Linear(96, 3), nn.Sigmoid())

    def forward(self, pts):
        h = posenc(pts)
        for layer in self.trunk:
            h = torch.relu(layer(h))
        return self.rgb(h), torch.relu(self.sigma(h)).squeeze(-1)


def volume_render(field, origins, dirs, near=2.0, far=6.0):
    t = torch.linspace(near, far, N_SAMPLES, device=origins.device)
    pts = origins[:, None] + dirs[:, None] * t[None, :, None]
    rgb, sigma = field(pts)
    alpha = 1 - torch.exp(-sigma * (far - near) / N_SAMPLES)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
    return ((alpha * trans)[..., None] * rgb).sum(1)


@torch.no_grad()
def render_view(field, origins, dirs):
    rows = [volume_render(field, o, d) for o, d in zip(origins.split(CHUNK), dirs.split(CHUNK))]
    return torch.cat(rows).view(H, W, 3).cpu()


def rays(n, gen):
    d = torch.randn(n, 3, generator=gen)
    return torch.randn(n, 3, generator=gen).cuda(), (d / d.norm(dim=-1, keepdim=True)).cuda()


def main():
    gen = torch.Generator().manual_seed(0)
    field = Field().cuda()
    opt = torch.optim.Adam(field.parameters(), lr=5e-4)
    for it in range(1, 21):
        o, d = rays(1024, gen)
        target = torch.rand(1024, 3, generator=gen).cuda()
        loss = (volume_render(field, o, d) - target).pow(2).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if it % 10 == 0:
            img = render_view(field, *rays(H * W, gen))
            print(it, "loss", float(loss), "view", tuple(img.shape))


main()
