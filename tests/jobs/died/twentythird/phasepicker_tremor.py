#!/usr/bin/env python3
"""P and S phase picker (1-D U-Net after PhaseNet) for a temporary network; prints residuals on the held-out events."""
import sys
import time

import numpy as np
import torch
from torch import nn

DEVICE = "cuda:0"
NPTS = 4096


def synth(n, seed):
    g = torch.Generator().manual_seed(seed)
    wave = torch.randn(n, 3, NPTS, generator=g)
    pick = torch.randint(400, NPTS - 400, (n, 2), generator=g)
    return wave, pick


def gauss(pick, sigma=20.0):
    t = torch.arange(NPTS)[None, None]
    p = torch.exp(-((t - pick[..., None]) ** 2) / (2 * sigma ** 2))
    return torch.cat([p, (1 - p.sum(1, keepdim=True)).clamp(min=0)], 1)


class Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.same = nn.Sequential(nn.Conv1d(i, o, 7, padding=3), nn.BatchNorm1d(o), nn.ReLU())
        self.pool = nn.Sequential(nn.Conv1d(o, o, 7, stride=4, padding=3), nn.BatchNorm1d(o), nn.ReLU())

    def forward(self, x):
        s = self.same(x)
        return s, self.pool(s)


class Up(nn.Module):
    def __init__(self, i, skip, o):
        super().__init__()
        self.up = nn.ConvTranspose1d(i, o, 4, stride=4)
        self.same = nn.Sequential(nn.Conv1d(o + skip, o, 7, padding=3), nn.BatchNorm1d(o), nn.ReLU())

    def forward(self, x, s):
        return self.same(torch.cat([self.up(x), s], 1))


class Picker(nn.Module):
    def __init__(self, w=(24, 32, 48, 64)):
        super().__init__()
        self.downs = nn.ModuleList([Down(3, w[0]), Down(w[0], w[1]), Down(w[1], w[2])])
        self.mid = nn.Conv1d(w[2], w[3], 7, padding=3)
        self.ups = nn.ModuleList([Up(w[3], w[2], w[2]), Up(w[2], w[1], w[1]), Up(w[1], w[0], w[0])])
        self.out = nn.Conv1d(w[0], 3, 1)

    def forward(self, x):
        skips = []
        for d in self.downs:
            s, x = d(x)
            skips.append(s)
        x = self.mid(x)
        for u, s in zip(self.ups, reversed(skips)):
            x = u(x, s)
        return self.out(x).softmax(1)


net = Picker().to(DEVICE)
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
wave, pick = synth(512, 1)
val_wave, val_pick = synth(1600, 2)
chunk = 32 if "--fixed" in sys.argv else len(val_wave)

for epoch in range(2):
    t0 = time.time()
    net.train()
    for idx in torch.randperm(len(wave)).split(64):
        prob, target = net(wave[idx].to(DEVICE)), gauss(pick[idx]).to(DEVICE)
        loss = -(target * torch.log(prob + 1e-8)).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        p = np.concatenate([net(w.to(DEVICE)).argmax(-1)[:, :2].cpu().numpy() for w in val_wave.split(chunk)])
    res = (p - val_pick.numpy()) / 100.0
    print(f"{epoch:02d} loss {loss.item():.4f}  residual P {res[:, 0].std():.2f} s  S {res[:, 1].std():.2f} s  ({time.time() - t0:.1f} s)")
