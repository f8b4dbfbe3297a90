import sys

import torch
import torch.nn as nn

# NeRF of my grandfather's chess set, 400x400 photos on a turntable. Third rewrite.
H = W = 400
FOCAL = 520.0
SAMPLES = 64
FIXED = "--fixed" in sys.argv


def encode(x, n):
    freqs = 2.0 ** torch.arange(n, device=x.device)
    a = (x[..., None] * freqs).flatten(-2)
    return torch.cat([x, a.sin(), a.cos()], -1)


class Field(nn.Module):
    def __init__(self, width=128, depth=5):
        super().__init__()
        dims = [3 + 3 * 2 * 8] + [width] * depth
        self.trunk = nn.Sequential(*[m for a, b in zip(dims, dims[1:]) for m in (nn.Linear(a, b), nn.ReLU())])
        self.sigma = nn.Linear(width, 1)
        self.rgb = nn.Sequential(nn.Linear(width + 3 + 3 * 2 * 3, width // 2), nn.ReLU(), nn.Linear(width // 2, 3), nn.Sigmoid())

    def forward(self, pts, dirs):
        h = self.trunk(encode(pts, 8))
        return self.sigma(h).relu(), self.rgb(torch.cat([h, encode(dirs, 3)], -1))


def render(field, origins, dirs, near=2.0, far=6.0):
    t = torch.linspace(near, far, SAMPLES, device=origins.device)
    pts = origins[:, None] + dirs[:, None] * t[:, None]
    sigma, rgb = field(pts, dirs[:, None].expand_as(pts))
    alpha = 1 - torch.exp(-sigma.squeeze(-1) * (far - near) / SAMPLES)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1] + 1e-10], 1), 1)
    weights = alpha * trans
    return (weights[..., None] * rgb).sum(1)


def view_rays(angle):
    j, i = torch.meshgrid(torch.arange(H), torch.arange(W), indexing="ij")
    d = torch.stack([(i - W / 2) / FOCAL, -(j - H / 2) / FOCAL, -torch.ones_like(i, dtype=torch.float)], -1).reshape(-1, 3)
    c, s = torch.cos(torch.tensor(angle)), torch.sin(torch.tensor(angle))
    rot = torch.tensor([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    d = d @ rot.T
    o = (rot @ torch.tensor([0.0, 0.0, 4.0])).expand_as(d)
    return o.contiguous(), d


@torch.no_grad()
def render_view(field, angle):
    o, d = view_rays(angle)
    if FIXED:
        rows = [render(field, a.cuda(), b.cuda()).cpu() for a, b in zip(o.split(4096), d.split(4096))]
        return torch.cat(rows).view(H, W, 3)
    return render(field, o.cuda(), d.cuda()).cpu().view(H, W, 3)


field = Field().cuda()
opt = torch.optim.Adam(field.parameters(), lr=5e-4)
gen = torch.Generator().manual_seed(64)
photos = [(a * 0.2, torch.full((H * W, 3), 0.5)) for a in range(8)]

for it in range(1, 31):
    angle, rgb = photos[it % len(photos)]
    o, d = view_rays(angle)
    pick = torch.randint(0, H * W, (2048,), generator=gen)
    loss = (render(field, o[pick].cuda(), d[pick].cuda()) - rgb[pick].cuda()).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 10 == 0:
        img = render_view(field, 0.13)
        print(f"iter {it} loss {loss.item():.4f} test view {tuple(img.shape)}")
