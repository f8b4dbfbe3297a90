"""Denoising diffusion on pictures of numbers on houses, written from the paper; draws a sheet of samples after each epoch."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
STEPS = 40


class Block(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.a, self.b = nn.Conv2d(inner, outer, 3, padding=1), nn.Conv2d(outer, outer, 3, padding=1)
        self.norm = nn.GroupNorm(8, outer)
        self.time = nn.Linear(64, outer)

    def forward(self, x, t):
        x = F.silu(self.a(x)) + self.time(t)[:, :, None, None]
        return F.silu(self.norm(self.b(x)))


class Denoiser(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.time = nn.Sequential(nn.Embedding(STEPS, 64), nn.Linear(64, 64), nn.SiLU())
        self.down = nn.ModuleList([Block(3, width), Block(width, 2 * width)])
        self.middle = Block(2 * width, 2 * width)
        self.up = nn.ModuleList([Block(4 * width, width), Block(2 * width, width)])
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x, t):
        t = self.time(t)
        skips = []
        for block in self.down:
            x = block(x, t)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x, t)
        for block in self.up:
            x = block(torch.cat([F.interpolate(x, scale_factor=2), skips.pop()], 1), t)
        return self.out(x)


class Diffusion:
    def __init__(self, model):
        self.model = model.cuda()
        self.beta = torch.linspace(1e-4, 0.2, STEPS)
        self.alpha = (1 - self.beta).cumprod(0)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)

    def loss(self, x):
        t = torch.randint(STEPS, (len(x),))
        a = self.alpha[t].view(-1, 1, 1, 1).cuda()
        noise = torch.randn_like(x)
        return F.mse_loss(self.model(a.sqrt() * x + (1 - a).sqrt() * noise, t.cuda()), noise)

    def sample(self, n):
        self.model.eval()
        x = torch.randn(n, 3, 32, 32, device="cuda")
        for k in reversed(range(STEPS)):
            t = torch.full((n,), k, device="cuda")
            a, b = self.alpha[k].item(), self.beta[k].item()
            x = (x - b / (1 - a) ** 0.5 * self.model(x, t)) / (1 - b) ** 0.5
            if k:
                x = x + b ** 0.5 * torch.randn_like(x)
        self.model.train()
        return x.clamp(-1, 1)

    def fit(self, epochs, batches):
        for epoch in range(epochs):
            for _ in range(batches):
                self.optimizer.zero_grad()
                loss = self.loss(torch.zeros(64, 3, 32, 32).cuda())
                loss.backward()
                self.optimizer.step()
            with torch.set_grad_enabled(not FIXED):
                sheet = self.sample(16)
            print("epoch", epoch, loss.item(), sheet.detach().cpu().mean().item())


Diffusion(Denoiser()).fit(2, 10)
