"""VAE of glaze textures on porcelain, with statistics of the activations in the log."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F

fixed = "--fixed" in sys.argv


class Monitor:
    """Watches blocks of a net and tells the mean and the spread of what comes out of them."""

    def __init__(self):
        self.seen = defaultdict(list)

    def watch(self, name, module):
        def hook(module, inputs, output):
            if fixed:
                self.seen[name].append((output.detach().mean().item(), output.detach().std().item()))
            else:
                self.seen[name].append(output)
        module.register_forward_hook(hook)

    def report(self):
        lines = []
        for name, values in self.seen.items():
            if fixed:
                mean, std = values[-1]
            else:
                mean, std = values[-1].mean().item(), values[-1].std().item()
            lines.append(f"{name} {mean:.2f}±{std:.2f}")
        return ", ".join(lines)


def down(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 4, 2, 1), nn.GroupNorm(8, b), nn.SiLU())


def up(a, b):
    return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(a, b, 3, 1, 1), nn.GroupNorm(8, b), nn.SiLU())


class GlazeVAE(nn.Module):
    def __init__(self, latent=64):
        super().__init__()
        self.encoder = nn.ModuleList([down(3, 32), down(32, 64), down(64, 128), down(128, 128)])
        self.mu, self.logvar = nn.Conv2d(128, latent, 1), nn.Conv2d(128, latent, 1)
        self.decoder = nn.ModuleList([up(latent, 128), up(128, 64), up(64, 32), up(32, 32)])
        self.rgb = nn.Conv2d(32, 3, 3, 1, 1)

    def forward(self, x):
        for block in self.encoder:
            x = block(x)
        mu, logvar = self.mu(x), self.logvar(x).clamp(-8, 8)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        for block in self.decoder:
            z = block(z)
        return torch.sigmoid(self.rgb(z)), mu, logvar


vae = GlazeVAE().cuda()
monitor = Monitor()
for kind in ("encoder", "decoder"):
    for i, block in enumerate(getattr(vae, kind)):
        monitor.watch(f"{kind}{i}", block)

optimizer = torch.optim.AdamW(vae.parameters(), lr=1e-3)
for step in range(24):
    x = torch.full((12, 3, 192, 192), (step % 5) / 5).cuda()
    y, mu, logvar = vae(x)
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).mean()
    loss = F.mse_loss(y, x) + 1e-3 * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 7:
        print(step, loss.item(), monitor.report())
