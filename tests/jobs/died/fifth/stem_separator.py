"""Separates songs into four stems in the time domain; the signal-to-distortion ratio of the epoch is printed at its end."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
STEMS, SAMPLES, BATCH = 4, 16384 * 2, 6


class Separator(nn.Module):
    def __init__(self, width=64, depth=4):
        super().__init__()
        self.encode, self.decode = nn.ModuleList(), nn.ModuleList()
        inner = 2
        for k in range(depth):
            outer = width * (k + 1)
            self.encode.append(nn.Sequential(nn.Conv1d(inner, outer, 8, 4, 2), nn.ReLU(), nn.Conv1d(outer, 2 * outer, 1), nn.GLU(1)))
            last = STEMS * 2 if k == 0 else inner
            self.decode.insert(0, nn.Sequential(nn.Conv1d(outer, 2 * outer, 3, 1, 1), nn.GLU(1), nn.ConvTranspose1d(outer, last, 8, 4, 2)))
            inner = outer
        self.middle = nn.LSTM(inner, inner // 2, bidirectional=True, batch_first=True)

    def forward(self, mix):
        x, skips = mix, []
        for block in self.encode:
            x = block(x)
            skips.append(x)
        x = self.middle(x.transpose(1, 2))[0].transpose(1, 2)
        for block in self.decode:
            x = block(x + skips.pop())
        return x.view(len(mix), STEMS, 2, -1)


def sdr(estimate, reference):
    return 10 * torch.log10(reference.pow(2).sum(-1) / ((estimate - reference).pow(2).sum(-1) + 1e-7) + 1e-7)


class History:
    def __init__(self):
        self.rows = []

    def add(self, estimate, reference):
        if FIXED:
            self.rows.append(sdr(estimate.detach(), reference).mean().item())
        else:
            self.rows.append((estimate, reference))

    def summary(self):
        if FIXED:
            return sum(self.rows) / len(self.rows)
        return torch.stack([sdr(*row).mean() for row in self.rows]).mean().item()


model = Separator().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
for epoch in range(2):
    history = History()
    for step in range(30):
        stems = torch.zeros(BATCH, STEMS, 2, SAMPLES).cuda()
        estimate = model(stems.sum(1))
        loss = F.l1_loss(estimate, stems)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.add(estimate, stems)
    print("epoch", epoch, "loss", loss.item(), "SDR", history.summary())
