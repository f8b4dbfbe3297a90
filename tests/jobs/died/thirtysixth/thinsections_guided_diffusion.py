"""Diffusion of petrographic thin sections (granite, basalt, gneiss, ...), sampled with classifier guidance."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
STEPS, ROCKS = 40, 9
device = torch.device("cuda")
alpha_bar = torch.cos(torch.linspace(0, math.pi / 2 * 0.98, STEPS)).pow(2)


class TimedBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, c), nn.Conv2d(c, c, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(8, c), nn.Conv2d(c, c, 3, padding=1)
        self.t = nn.Linear(64, c)

    def forward(self, x, emb):
        h = self.c1(F.silu(self.n1(x))) + self.t(emb)[:, :, None, None]
        return x + self.c2(F.silu(self.n2(h)))


class Backbone(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.emb = nn.Sequential(nn.Embedding(STEPS, 64), nn.SiLU(), nn.Linear(64, 64))
        self.inp = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(TimedBlock(width) for _ in range(4))
        self.out = nn.Conv2d(width, out, 3, padding=1)

    def forward(self, x, t):
        emb, h = self.emb(t), self.inp(x)
        for b in self.blocks:
            h = b(h, emb)
        return self.out(h)


denoiser, classifier = Backbone(48, 3).to(device), Backbone(16, ROCKS).to(device)
opt = torch.optim.AdamW([*denoiser.parameters(), *classifier.parameters()], lr=2e-4)
rng = torch.Generator().manual_seed(21)


def noisy_batch(n=8, side=64):
    x0, rock = torch.rand(n, 3, side, side, generator=rng) * 2 - 1, torch.randint(0, ROCKS, (n,), generator=rng)
    t, noise = torch.randint(0, STEPS, (n,), generator=rng), torch.randn(n, 3, side, side, generator=rng)
    a = alpha_bar[t].view(-1, 1, 1, 1)
    return [v.to(device) for v in (a.sqrt() * x0 + (1 - a).sqrt() * noise, t, noise, rock)]


def classifier_gradient(x, t, rock):
    logp = classifier(x, t).mean((2, 3)).log_softmax(-1)
    return torch.autograd.grad(logp[range(len(x)), rock].sum(), x)[0]


def guided_sample(rock, scale=3.0, n=8, side=64):
    denoiser.eval(), classifier.eval()
    x = torch.randn(n, 3, side, side, device=device).requires_grad_()
    for i in reversed(range(STEPS)):
        t = torch.full((n,), i, device=device)
        if FIXED:
            x = x.detach().requires_grad_()
        grad = classifier_gradient(x, t, rock)
        with torch.set_grad_enabled(not FIXED):
            eps = denoiser(x, t)
        a, prev = alpha_bar[i].item(), alpha_bar[max(i - 1, 0)].item()
        eps = eps - math.sqrt(1 - a) * scale * grad
        x0 = ((x - math.sqrt(1 - a) * eps) / math.sqrt(a)).clamp(-1, 1)
        x = math.sqrt(prev) * x0 + math.sqrt(1 - prev) * eps
    denoiser.train(), classifier.train()
    return x.detach().cpu()


for step in range(12):
    xt, t, noise, rock = noisy_batch()
    loss = F.mse_loss(denoiser(xt, t), noise) + 0.1 * F.cross_entropy(classifier(xt, t).mean((2, 3)), rock)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("step", step, "loss", loss.item())
print("sheet of", tuple(guided_sample(rock=4).shape))
