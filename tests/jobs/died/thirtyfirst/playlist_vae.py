"""Music service: VAE over the play counts of users, to recommend playlists (Mult-VAE with an optional MMD term)."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Hparams:
    items: int = 6000
    latent: int = 128
    users_per_batch: int = 2048
    steps: int = 18
    kl_weight: float = 0.2
    mmd_weight: float = 0.0   # turned on in the ablation


class MultVAE(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(hp.items, 512), nn.Tanh(), nn.Linear(512, hp.latent * 2))
        self.dec = nn.Sequential(nn.Linear(hp.latent, 512), nn.Tanh(), nn.Linear(512, hp.items))

    def forward(self, x):
        mu, logvar = self.enc(F.normalize(x)).chunk(2, -1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar, z


def mmd(z):
    prior = torch.randn_like(z)
    def kernel(a, b):
        return torch.exp(-torch.cdist(a, b).pow(2) / a.shape[1])
    return kernel(z, z).mean() + kernel(prior, prior).mean() - 2 * kernel(z, prior).mean()


def loss_terms(model, x):
    logits, mu, logvar, z = model(x)
    return {
        "recon": -(F.log_softmax(logits, -1) * x).sum(-1).mean(),
        "kl": -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean(),
        "mmd": mmd(z),
    }


class Meters:
    def __init__(self):
        self.values = {}

    def update(self, **terms):
        for k, v in terms.items():
            if "--fixed" in sys.argv:
                v = v.detach()
            self.values.setdefault(k, []).append(v)

    def summary(self):
        return {k: float(sum(v)) / len(v) for k, v in self.values.items()}


def main():
    hp = Hparams()
    model, meters = MultVAE(hp).cuda(), Meters()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(0)
    plays = (torch.rand(hp.users_per_batch * 2, hp.items, generator=gen) > 0.99).float()
    for step in range(hp.steps):
        x = plays[torch.randperm(len(plays), generator=gen)[:hp.users_per_batch]].cuda()
        terms = loss_terms(model, x)
        loss = terms["recon"] + hp.kl_weight * terms["kl"]
        if hp.mmd_weight:
            loss = loss + hp.mmd_weight * terms["mmd"]
        opt.zero_grad()
        loss.backward()
        opt.step()
        meters.update(**terms)
    print(meters.summary())


main()
