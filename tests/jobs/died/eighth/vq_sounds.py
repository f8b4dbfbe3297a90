"""A VQ-VAE for short sounds, written by hand: strided convolutions, a codebook with the straight-through trick, and a decoder."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class Codebook(nn.Module):
    def __init__(self, codes=512, width=64, commitment=0.25):
        super().__init__()
        self.table = nn.Parameter(torch.randn(codes, width) / width ** 0.5)
        self.commitment = commitment

    def nearest(self, rows):
        if FIXED:
            with torch.no_grad():
                d = rows.square().sum(1, keepdim=True) - 2 * rows @ self.table.T + self.table.square().sum(1)
                return d.argmin(1).clamp(0, len(self.table) - 1)
        d = ((rows[:, None, :] - self.table[None]) ** 2).sum(2)
        return d.argmin(1).clamp(0, len(self.table) - 1)

    def forward(self, z):  # batch, width, time
        b, w, t = z.shape
        rows = z.transpose(1, 2).reshape(-1, w)
        quantized = F.embedding(self.nearest(rows), self.table)
        loss = F.mse_loss(quantized, rows.detach()) + self.commitment * F.mse_loss(rows, quantized.detach())
        quantized = rows + (quantized - rows).detach()
        return quantized.view(b, t, w).transpose(1, 2), loss


class SoundVAE(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        down = []
        for n in range(4):
            down += [nn.Conv1d(1 if n == 0 else width, width, 8, 4, 2), nn.ELU()]
        self.encoder = nn.Sequential(*down, nn.Conv1d(width, width, 3, padding=1))
        up = []
        for n in range(4):
            up += [nn.ELU(), nn.ConvTranspose1d(width, 1 if n == 3 else width, 8, 4, 2)]
        self.book, self.decoder = Codebook(), nn.Sequential(*up)

    def forward(self, sound):
        z, loss = self.book(self.encoder(sound))
        return self.decoder(z), loss


def main():
    vae = SoundVAE().to("cuda")
    optimizer = torch.optim.Adam(vae.parameters(), lr=4e-4)
    for step in range(5):
        sound = torch.zeros(32, 1, 16384).to("cuda")
        guess, extra = vae(sound)
        loss = F.l1_loss(guess, sound) + extra
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


main()
