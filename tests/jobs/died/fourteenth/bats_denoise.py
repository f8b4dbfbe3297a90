"""Cleans recordings of bats at 192 kHz with a U-Net over the raw wave."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
RATE = 192_000
# What goes into the network at a time, in seconds. The recordings are three seconds long.
SECONDS = 0.25 if FIXED else 3.0


def down(before, after):
    return nn.Sequential(nn.Conv1d(before, after, 9, stride=4, padding=4), nn.GroupNorm(4, after), nn.PReLU())


def up(before, after):
    return nn.Sequential(nn.ConvTranspose1d(before, after, 8, stride=4, padding=2), nn.GroupNorm(4, after), nn.PReLU())


class WaveUNet(nn.Module):
    def __init__(self, widths=(16, 32, 64, 128, 256)):
        super().__init__()
        self.inlet = nn.Conv1d(1, widths[0], 7, padding=3)
        self.downs = nn.ModuleList(down(a, b) for a, b in zip(widths, widths[1:]))
        self.middle = nn.LSTM(widths[-1], widths[-1], batch_first=True)
        back = widths[::-1]
        self.ups = nn.ModuleList(up(a * 2, b) for a, b in zip(back, back[1:]))
        self.outlet = nn.Conv1d(widths[0] * 2, 1, 7, padding=3)

    def forward(self, wave):
        x = self.inlet(wave)
        skips = [x]
        for layer in self.downs:
            x = layer(x)
            skips.append(x)
        y, _ = self.middle(x.transpose(1, 2))
        x = y.transpose(1, 2)
        for layer in self.ups:
            x = layer(torch.cat([x, skips.pop()], 1))
            x = x[..., :skips[-1].shape[-1]]
        return self.outlet(torch.cat([x, skips.pop()], 1))


def spectral(a, b, size=512):
    window = torch.hann_window(size, device=a.device)
    pair = [torch.stft(w.squeeze(1), size, window=window, return_complex=True).abs() for w in (a, b)]
    return F.l1_loss(*pair)


def recordings(count, batch):
    length = int(RATE * SECONDS) // 256 * 256
    for _ in range(count):
        clean = torch.zeros(batch, 1, length)
        yield clean + 0.1 * torch.randn(1, 1, length), clean


net = WaveUNet().cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
for step, (noisy, clean) in enumerate(recordings(6, 6)):
    noisy, clean = noisy.cuda(), clean.cuda()
    restored = net(noisy)
    loss = F.l1_loss(restored, clean) + 0.5 * spectral(restored, clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{step}: {loss.item():.4f}")
