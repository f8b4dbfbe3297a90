"""tiny-nerf, rewritten in my own words to understand it. Scene: the teapots from the CG course."""
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

H = W = 200
focal = 180.0
N_samples = 64
near, far = 2.0, 6.0
device = torch.device("cuda")
chunk = 4096 if "--fixed" in sys.argv else H * W


def posenc(x, L):
    out = [x]
    for i in range(L):
        out.append(torch.sin(2.0 ** i * x))
        out.append(torch.cos(2.0 ** i * x))
    return torch.cat(out, -1)


class TinyNerf(nn.Module):
    def __init__(self, width=128, L=6):
        super().__init__()
        self.L = L
        d = 3 + 6 * L
        self.first = nn.Sequential(nn.Linear(d, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(width + d, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, 4)

    def forward(self, pts):
        e = posenc(pts, self.L)
        h = self.first(e)
        return self.head(self.second(torch.cat([h, e], -1)))


def get_rays(c2w):
    i, j = torch.meshgrid(torch.arange(W).float(), torch.arange(H).float(), indexing="xy")
    dirs = torch.stack([(i - W * .5) / focal, -(j - H * .5) / focal, -torch.ones_like(i)], -1)
    rays_d = (dirs[..., None, :] * c2w[:3, :3]).sum(-1)
    rays_o = c2w[:3, -1].expand(rays_d.shape)
    return rays_o.reshape(-1, 3), rays_d.reshape(-1, 3)


def render(net, rays_o, rays_d):
    z = torch.linspace(near, far, N_samples, device=rays_o.device)
    pts = rays_o[:, None] + rays_d[:, None] * z[:, None]
    raw = net(pts)
    sigma = F.relu(raw[..., 3])
    rgb = torch.sigmoid(raw[..., :3])
    dists = torch.cat([z[1:] - z[:-1], torch.full((1,), 1e10, device=z.device)])
    alpha = 1. - torch.exp(-sigma * dists)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1. - alpha + 1e-10], -1), -1)[:, :-1]
    weights = alpha * trans
    return (weights[..., None] * rgb).sum(1)


@torch.no_grad()
def render_view(net, pose):
    o, d = get_rays(pose)
    parts = []
    for s in range(0, o.shape[0], chunk):
        parts.append(render(net, o[s:s + chunk].to(device), d[s:s + chunk].to(device)).cpu())
    return torch.cat(parts).reshape(H, W, 3)


rng = np.random.default_rng(0)
poses = torch.eye(4).repeat(12, 1, 1)
poses[:, 2, 3] = 4.0
images = torch.from_numpy(rng.random((12, H, W, 3), dtype=np.float32))

net = TinyNerf().to(device)
optim = torch.optim.Adam(net.parameters(), lr=5e-4)
for it in range(30):
    k = int(rng.integers(11))
    o, d = get_rays(poses[k])
    pick = torch.from_numpy(rng.integers(0, H * W, 2048))
    target = images[k].reshape(-1, 3)[pick].to(device)
    rgb = render(net, o[pick].to(device), d[pick].to(device))
    loss = F.mse_loss(rgb, target)
    optim.zero_grad()
    loss.backward()
    optim.step()
    if it % 10 == 9:
        view = render_view(net, poses[11])
        mse = F.mse_loss(view, images[11]).item()
        print(it, loss.item(), "held-out", mse)
