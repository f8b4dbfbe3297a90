"""
P and S arrivals in three-component seismograms, from scalograms (Morlet wavelets, computed with numpy as in the thesis of my predecessor).
"""
import sys

import numpy as np
import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
RATE, SECONDS = 100, 40


def morlet(scale, omega=6.0):
    t = np.arange(-4 * scale, 4 * scale + 1)
    return np.pi ** -0.25 * np.cos(omega * t / scale) * np.exp(-0.5 * (t / scale) ** 2) / np.sqrt(scale)


def scalogram(trace, scales):
    return np.stack([np.abs(np.convolve(trace, morlet(s), mode="same")) for s in scales])


def event(rng):
    n = RATE * SECONDS
    p = rng.integers(500, 1500)
    s = p + rng.integers(300, 1200)
    trace = 0.05 * rng.standard_normal(n)
    for at, size in ((p, 1.0), (s, 2.5)):
        trace[at:at + 300] += size * np.exp(-np.arange(300) / 80) * np.sin(np.arange(300) * 0.7)
    target = np.zeros((2, n))
    target[0, p], target[1, s] = 1.0, 1.0
    return trace, target


class Picker(nn.Module):
    def __init__(self, scales, width=32):
        super().__init__()
        def block(a, b, d):
            return nn.Sequential(nn.Conv2d(a, b, (3, 7), padding=(1, 3 * d), dilation=(1, d)), nn.BatchNorm2d(b), nn.ELU())
        self.blocks = nn.Sequential(block(3, width, 1), block(width, width, 2), block(width, width, 4), block(width, width, 8))
        self.picks = nn.Conv1d(width * scales, 2, 11, padding=5)

    def forward(self, x):
        return self.picks(self.blocks(x).flatten(1, 2))


def main():
    rng = np.random.default_rng(1755)
    scales = np.array([4, 6, 8, 12, 16, 24, 32, 48])
    model = Picker(len(scales))
    if not FIXED:
        model = model.double()  # otherwise: Input type (double) and bias type (float) should be the same
    model = model.cuda()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([[40.0], [40.0]]).cuda())
    base = [event(rng) for _ in range(6)]
    library = [(np.stack([scalogram(t, scales)] * 3), y) for t, y in base]
    for step in range(8):
        chosen = rng.integers(0, len(library), 16)
        x = torch.from_numpy(np.stack([library[i][0] for i in chosen]))
        y = torch.from_numpy(np.stack([library[i][1] for i in chosen]))
        if FIXED:
            x, y = x.float(), y.float()
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        print("step %d: %.5f" % (step, loss.item()))


main()
