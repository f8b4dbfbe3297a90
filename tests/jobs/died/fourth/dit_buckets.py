"""Trains a small DiT on latents of posters with buckets for the aspect ratios; each batch has one bucket, and its size is fixed by hand."""
import math
import random
import sys

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler
from torch import nn

FIXED = "--fixed" in sys.argv
# Height and width of the latents, in patches of two.
BUCKETS = {"square": (16, 16), "portrait": (20, 12), "landscape": (12, 20), "banner": (12, 96)}
ORDER = ["square", "portrait", "square", "landscape", "portrait", "square", "banner", "landscape", "square"]


class Modulated(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.heads = heads

    def forward(self, x, condition):
        s1, b1, g1, s2, b2, g2 = self.modulation(condition)[:, None].chunk(6, -1)
        h = self.norm1(x) * (1 + s1) + b1
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in self.qkv(h).chunk(3, -1))
        x = x + g1 * self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + g2 * self.mlp(self.norm2(x) * (1 + s2) + b2)


class DiT(nn.Module):
    def __init__(self, width=384, depth=10, heads=6, styles=20):
        super().__init__()
        self.patch = nn.Conv2d(4, width, 2, 2)
        self.style, self.time = nn.Embedding(styles, width), nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(Modulated(width, heads) for _ in range(depth))
        self.final = nn.Linear(width, 16)

    @staticmethod
    def wave(t, n):
        angle = t[:, None].float() * torch.exp(-math.log(10000) * torch.arange(n // 2, device=t.device) / (n // 2))
        return torch.cat([angle.cos(), angle.sin()], -1)

    def forward(self, latents, t, style):
        x = self.patch(latents)
        h, w = x.shape[-2:]
        rows, columns = (self.wave(torch.arange(n, device=x.device), x.shape[1]) for n in (h, w))
        x = x.flatten(2).transpose(1, 2) + (rows[:, None] + columns).flatten(0, 1)
        condition = self.time(self.wave(t, 256)) + self.style(style)
        for block in self.blocks:
            x = block(x, condition)
        return F.pixel_shuffle(self.final(x).transpose(1, 2).unflatten(2, (h, w)), 2)


def batch_size(bucket, wanted=32):
    if not FIXED:
        return wanted
    h, w = BUCKETS[bucket]
    return min(wanted, wanted * 256 // (h * w))


def main():
    torch.manual_seed(0)
    random.seed(0)
    model = DiT().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0)
    noise_of = DDPMScheduler(num_train_timesteps=1000)
    for step, bucket in enumerate(ORDER):
        n, (h, w) = batch_size(bucket), BUCKETS[bucket]
        latents, style = torch.randn(n, 4, 2 * h, 2 * w).to("cuda"), torch.randint(0, 20, (n,)).to("cuda")
        noise, t = torch.randn_like(latents), torch.randint(0, 1000, (n,)).to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guess = model(noise_of.add_noise(latents, noise, t), t, style)
        loss = F.mse_loss(guess.float(), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, bucket, n, loss.item())


main()
