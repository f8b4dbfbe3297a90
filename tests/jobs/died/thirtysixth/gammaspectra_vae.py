"""VAE of gamma-ray spectra (1024 channels of a NaI detector), reported with the importance-weighted likelihood of Burda et al."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

CHANNELS, LATENT = 1024, 24
CHUNK = 50 if "--fixed" in sys.argv else None
torch.manual_seed(3)


class SpectrumVAE(nn.Module):
    def __init__(self, hidden=512):
        super().__init__()
        self.inference = nn.Sequential(nn.Linear(CHANNELS, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 2 * LATENT))
        self.rate = nn.Sequential(nn.Linear(LATENT, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, CHANNELS))

    def posterior(self, counts):
        mu, logvar = self.inference(counts.log1p()).chunk(2, -1)
        return mu, logvar.clamp(-8, 8)

    def log_px(self, z, counts):
        """Poisson log-likelihood of the counts in each channel, summed over channels."""
        log_rate = self.rate(z)
        return (counts * log_rate - log_rate.exp() - torch.lgamma(counts + 1)).sum(-1)

    def elbo(self, counts):
        mu, logvar = self.posterior(counts)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        kl = 0.5 * (mu.pow(2) + logvar.exp() - 1 - logvar).sum(-1)
        return (self.log_px(z, counts) - kl).mean()


def log_normal(z, mu, logvar):
    return -0.5 * (math.log(2 * math.pi) + logvar + (z - mu).pow(2) / logvar.exp()).sum(-1)


@torch.no_grad()
def marginal_likelihood(vae, counts, samples=2000):
    """log p(x) by importance sampling, averaged over the spectra."""
    mu, logvar = vae.posterior(counts)
    weights = []
    step = CHUNK or samples
    for start in range(0, samples, step):
        k = min(step, samples - start)
        z = mu + torch.randn(k, *mu.shape, device=mu.device) * (0.5 * logvar).exp()
        zero = torch.zeros_like(mu)
        weights.append(vae.log_px(z, counts) + log_normal(z, zero, zero) - log_normal(z, mu, logvar))
    return (torch.cat(weights).logsumexp(0) - math.log(samples)).mean()


def spectra(n):
    return torch.poisson(4 * torch.rand(n, CHANNELS))


def run():
    vae = SpectrumVAE().cuda()
    opt = torch.optim.Adam(vae.parameters(), lr=1e-3)
    train, test = spectra(2560), spectra(300)
    for epoch in range(3):
        vae.train()
        for batch in train[torch.randperm(len(train))].split(256):
            loss = -vae.elbo(batch.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
        vae.eval()
        scores = [marginal_likelihood(vae, part.cuda()).item() for part in test.split(100)]
        print(f"epoch {epoch}: -elbo {loss.item():.2f}, log p(x) {sum(scores) / len(scores):.2f} nats")


run()
