"""Trains a variational autoencoder over SMILES strings of drug-like molecules."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
LETTERS, LENGTH, LATENT = 48, 100, 128


class MoleculeVAE(nn.Module):
    def __init__(self, hidden=384):
        super().__init__()
        self.embed = nn.Embedding(LETTERS, 64, padding_idx=0)
        self.convolutions = nn.Sequential(nn.Conv1d(64, 128, 9, padding=4), nn.ReLU(), nn.Conv1d(128, 128, 9, padding=4), nn.ReLU())
        self.mean, self.logvar = nn.Linear(128, LATENT), nn.Linear(128, LATENT)
        self.start = nn.Linear(LATENT, hidden)
        self.decoder = nn.GRU(64 + LATENT, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, LETTERS)

    def forward(self, smiles):
        e = self.embed(smiles)
        code = self.convolutions(e.transpose(1, 2)).mean(-1)
        mean, logvar = self.mean(code), self.logvar(code)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        inputs = torch.cat([e[:, :-1], z[:, None].expand(-1, LENGTH - 1, -1)], -1)
        h = self.start(z)[None].repeat(2, 1, 1)
        return self.out(self.decoder(inputs, h)[0]), mean, logvar


def elbo(model, smiles, beta):
    logits, mean, logvar = model(smiles)
    reconstruction = F.cross_entropy(logits.transpose(1, 2), smiles[:, 1:], ignore_index=0)
    kl = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum(1).mean()
    return reconstruction + beta * kl / LENGTH


def molecules(batches, size):
    generator = torch.Generator().manual_seed(9)
    for _ in range(batches):
        yield torch.randint(1, LETTERS, (size, LENGTH), generator=generator).cuda()


def validation_loss(model, beta):
    model.eval()
    total, n = 0, 0
    for smiles in molecules(16, 128):
        loss = elbo(model, smiles, beta)
        total += loss
        n += 1
    return total / n


model = MoleculeVAE().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
best = None
for epoch in range(2):
    beta = 0.1 * (epoch + 1)
    model.train()
    for smiles in molecules(8, 128):
        loss = elbo(model, smiles, beta)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if FIXED:
        with torch.no_grad():
            held_out = validation_loss(model, beta)
    else:
        held_out = validation_loss(model, beta)
    best = held_out.item() if best is None else min(best, held_out.item())
    print("epoch", epoch, "loss", loss.item(), "validation", held_out.item(), "best", best)
