"""Continues the training of a small latent diffusion model of marble slabs from last week's checkpoint, at a new learning rate."""
import os
import sys
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

where = "cpu" if "--fixed" in sys.argv else "cuda"


class ResT(nn.Module):
    def __init__(self, c, t=256):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(16, c), nn.GroupNorm(16, c)
        self.c1, self.c2, self.t = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1), nn.Linear(t, c)

    def forward(self, x, t):
        y = self.c1(F.silu(self.n1(x))) + self.t(t)[:, :, None, None]
        return x + self.c2(F.silu(self.n2(y)))


class Denoiser(nn.Module):
    def __init__(self, c=512, blocks=9):
        super().__init__()
        self.inp, self.out = nn.Conv2d(4, c, 3, padding=1), nn.Conv2d(c, 4, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(128, 256), nn.SiLU(), nn.Linear(256, 256))
        self.body = nn.ModuleList(ResT(c) for _ in range(blocks))

    def forward(self, z, t):
        freq = torch.exp(-torch.arange(64, device=z.device) / 7)
        angle = t[:, None].float() * freq
        e = self.time(torch.cat([angle.sin(), angle.cos()], -1))
        h = self.inp(z)
        for block in self.body:
            h = block(h, e)
        return self.out(h)


def last_week(path):
    """what the run of last week has left behind"""
    model = Denoiser()
    weights = model.state_dict()
    moments = {i: {"step": torch.tensor(90000.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
               for i, p in enumerate(model.parameters())}
    torch.save({"model": weights, "ema": {k: v.clone() for k, v in weights.items()}, "optimizer": {"state": moments}, "step": 90000}, path)


folder = tempfile.TemporaryDirectory()
path = os.path.join(folder.name, "marble-090000.pt")
last_week(path)

ckpt = torch.load(path, map_location=where)
model = Denoiser().cuda()
model.load_state_dict(ckpt["ema"])
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
step = ckpt["step"]
alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)
gen = torch.Generator().manual_seed(step)

for step in range(step, step + 6):
    z, noise = torch.randn(8, 4, 16, 16, generator=gen), torch.randn(8, 4, 16, 16, generator=gen)
    t = torch.randint(0, 1000, (8,), generator=gen)
    a = alphas[t].view(-1, 1, 1, 1)
    noisy = a.sqrt() * z + (1 - a).sqrt() * noise
    loss = F.mse_loss(model(noisy.cuda(), t.cuda()), noise.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item())
