"""NeRF of a bonsai on a turntable (positional encoding, stratified samples along each ray)."""
import sys

import torch
import torch.nn as nn

VIEWS, H, W, FOCAL = 160, 420, 420, 500.0
NEAR, FAR, SAMPLES, RAYS = 2.0, 6.0, 48, 1024


def encode(x, bands):
    parts = [x]
    for i in range(bands):
        parts += [torch.sin(2.0 ** i * x), torch.cos(2.0 ** i * x)]
    return torch.cat(parts, -1)


class Field(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(63, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.sigma = nn.Linear(width, 1)
        self.color = nn.Sequential(nn.Linear(width + 27, width // 2), nn.ReLU(), nn.Linear(width // 2, 3), nn.Sigmoid())

    def forward(self, x, d):
        h = self.body(encode(x, 10))
        return self.sigma(h).squeeze(-1), self.color(torch.cat([h, encode(d, 4)], -1))


def render(field, origins, directions):
    z = torch.linspace(NEAR, FAR, SAMPLES, device=origins.device).expand(len(origins), -1)
    z = z + torch.rand_like(z) * (FAR - NEAR) / SAMPLES
    x = origins[:, None] + directions[:, None] * z[..., None]
    sigma, color = field(x, directions[:, None].expand_as(x))
    alpha = 1 - torch.exp(-torch.relu(sigma) * (FAR - NEAR) / SAMPLES)
    through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
    return ((alpha * through)[..., None] * color).sum(1)


def camera(view):
    angle = torch.tensor(2 * torch.pi * view / VIEWS)
    c, s = angle.cos(), angle.sin()
    pose = torch.eye(3, 4)
    pose[0, 0], pose[0, 2], pose[2, 0], pose[2, 2] = c, s, -s, c
    pose[:, 3] = 4 * pose[:, 2]
    return pose


def rays(view, device):
    pose = camera(view).to(device)
    j, i = torch.meshgrid(torch.arange(H, device=device), torch.arange(W, device=device), indexing="ij")
    local = torch.stack([(i - W / 2) / FOCAL, (H / 2 - j) / FOCAL, -torch.ones(H, W, device=device)], -1)
    return pose[:, 3].expand(H * W, 3), (local @ pose[:, :3].T).reshape(-1, 3)


class RayBank:
    """All rays of all views with their colors, in random order."""

    def __init__(self, photos, device):
        bank = [torch.cat([*rays(v, device), photo.to(device).float().div(255).view(-1, 3)], 1) for v, photo in enumerate(photos)]
        self.rows = torch.cat(bank)

    def draw(self):
        pick = torch.randint(0, len(self.rows), (RAYS,))
        return self.rows[pick.to(self.rows.device)].cuda().split(3, 1)


photos = torch.randint(0, 256, (VIEWS, H, W, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(4))
bank = RayBank(photos, "cpu" if "--fixed" in sys.argv else "cuda")
field = Field().cuda()
optimizer = torch.optim.Adam(field.parameters(), lr=5e-4)
for step in range(12):
    origins, directions, color = bank.draw()
    loss = (render(field, origins, directions) - color).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
