"""Neural codec for solo cello: strided encoder, residual vector quantiser, transposed decoder, spectral loss."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Settings:
    rate: int = 44100
    seconds: float = 1.0 if "--fixed" in sys.argv else 5.0
    batch: int = 10
    channels: int = 16
    strides: tuple = (2, 4, 5, 7)
    books: int = 4
    codes: int = 512
    steps: int = 8


class Unit(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.net = nn.Sequential(nn.ELU(), nn.Conv1d(c, c, 7, padding=3 * dilation, dilation=dilation), nn.ELU(), nn.Conv1d(c, c, 1))

    def forward(self, x):
        return x + self.net(x)


class Quantiser(nn.Module):
    def __init__(self, s, width):
        super().__init__()
        self.books = nn.ParameterList(nn.Parameter(torch.randn(s.codes, width) * 0.02) for _ in range(s.books))

    def forward(self, z):
        rest, total, commit = z.transpose(1, 2), 0, 0
        for book in self.books:
            nearest = torch.cdist(rest.detach(), book.detach().expand(len(rest), -1, -1)).argmin(-1)
            chosen = F.embedding(nearest, book)
            commit = commit + F.mse_loss(rest, chosen.detach()) + F.mse_loss(chosen, rest.detach())
            total, rest = total + chosen, rest - chosen.detach()
        return z + (total.transpose(1, 2) - z).detach(), commit


class Codec(nn.Module):
    def __init__(self, s):
        super().__init__()
        c = s.channels
        down = [nn.Conv1d(1, c, 7, padding=3)]
        up = []
        for stride in s.strides:
            down += [Unit(c, 1), Unit(c, 3), nn.ELU(), nn.Conv1d(c, 2 * c, 2 * stride, stride, padding=stride // 2)]
            up = [nn.ELU(), nn.ConvTranspose1d(2 * c, c, 2 * stride, stride, padding=stride // 2), Unit(c, 1), Unit(c, 3)] + up
            c *= 2
        self.encoder = nn.Sequential(*down)
        self.quantiser = Quantiser(s, c)
        self.decoder = nn.Sequential(*up, nn.ELU(), nn.Conv1d(s.channels, 1, 7, padding=3))

    def forward(self, wave):
        z, commit = self.quantiser(self.encoder(wave))
        return self.decoder(z)[..., :wave.shape[-1]], commit


def spectral_loss(a, b):
    loss = 0
    for size in (512, 2048):
        window = torch.hann_window(size, device=a.device)
        sa, sb = (torch.stft(x.squeeze(1), size, size // 4, window=window, return_complex=True).abs() for x in (a, b))
        loss = loss + F.l1_loss(sa, sb)
    return loss


def main(s=Settings()):
    codec = Codec(s).cuda()
    optimizer = torch.optim.AdamW(codec.parameters(), lr=3e-4, betas=(0.8, 0.99))
    for step in range(s.steps):
        wave = torch.rand(s.batch, 1, int(s.rate * s.seconds)).sub_(0.5).cuda()
        out, commit = codec(wave)
        n = min(out.shape[-1], wave.shape[-1])
        loss = F.l1_loss(out[..., :n], wave[..., :n]) + spectral_loss(out[..., :n], wave[..., :n]) + 0.25 * commit
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, loss.item())


main()
