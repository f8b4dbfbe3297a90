"""A conformer for speech recognition; utterances come sorted into batches by the hour they were recorded, not by length.

After https://github.com/lhotse-speech/lhotse/issues/231 and https://github.com/stickeritis/sticker/issues/55
"""
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

SECONDS = [[5, 6, 4, 7, 6, 5, 5, 6], [6, 6, 5, 4, 7, 7, 6, 5], [4, 5, 5, 6, 6, 4, 5, 7], [7, 5, 6, 4, 5, 6, 6, 5], [5, 6, 6, 5, 31, 6, 5, 4],
           [6, 4, 5, 6, 5, 6, 7, 5]]


class Conformer(nn.Module):
    def __init__(self, dim=384, heads=6, kernel=15):
        super().__init__()
        self.ff1, self.ff2 = self.feed(dim), self.feed(dim)
        self.na, self.attn = nn.LayerNorm(dim), nn.MultiheadAttention(dim, heads, batch_first=True)
        self.nc, self.glu = nn.LayerNorm(dim), nn.Conv1d(dim, 2 * dim, 1)
        self.depth = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.bn, self.point, self.nl = nn.BatchNorm1d(dim), nn.Conv1d(dim, dim, 1), nn.LayerNorm(dim)

    @staticmethod
    def feed(dim):
        return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + 0.5 * self.ff1(x)
        y = self.na(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        y = nn.functional.glu(self.glu(self.nc(x).transpose(1, 2)), 1)
        x = x + self.point(nn.functional.silu(self.bn(self.depth(y)))).transpose(1, 2)
        return self.nl(x + 0.5 * self.ff2(x))


class Recogniser(nn.Module):
    def __init__(self, dim=384, layers=8, letters=64):
        super().__init__()
        self.sub = nn.Sequential(nn.Conv1d(80, dim, 3, 2, 1), nn.ReLU(), nn.Conv1d(dim, dim, 3, 2, 1), nn.ReLU())
        self.layers, self.out = nn.Sequential(*[Conformer(dim) for _ in range(layers)]), nn.Linear(dim, letters)

    def forward(self, mel):
        return self.out(self.layers(self.sub(mel.transpose(1, 2)).transpose(1, 2)))


def batches(longest):
    for lengths in SECONDS:
        kept = [s for s in lengths if not longest or s <= longest]
        mel = pad_sequence([torch.zeros(100 * s, 80) for s in kept], batch_first=True)
        yield mel, torch.randint(64, (len(kept), mel.size(1) // 4))


def main():
    model = Recogniser().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, (mel, letters) in enumerate(batches(20 if "--fixed" in sys.argv else None)):
        out = model(mel.cuda())
        loss = nn.functional.cross_entropy(out.flatten(0, 1), letters.cuda().flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())


main()
