"""Spots keywords in one-second recordings: a depthwise network over mel spectrograms that are computed once."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

STORE = "cpu" if "--fixed" in sys.argv else "cuda"
N, MELS, FRAMES, WORDS = 12000, 80, 192, 35


class Recordings(Dataset):
    """Spectrograms of all recordings, so that an epoch reads no files."""

    def __init__(self, n):
        bank = torch.rand(MELS, 64)
        self.items = []
        for k in range(n):
            wave = torch.zeros(FRAMES, 64) + k % 7
            mel = (bank @ wave.T).log1p()
            self.items.append((mel[None].to(STORE), k % WORDS))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, k):
        return self.items[k]


class Separable(nn.Module):
    def __init__(self, width, stride):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(width, width, 3, stride, 1, groups=width), nn.BatchNorm2d(width), nn.ReLU(),
                                 nn.Conv2d(width, width, 1), nn.BatchNorm2d(width), nn.ReLU())

    def forward(self, x):
        return self.net(x)


class DSCNN(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.first = nn.Conv2d(1, width, (10, 4), 2, (4, 1))
        self.body = nn.Sequential(*(Separable(width, 2 if k == 1 else 1) for k in range(4)))
        self.head = nn.Linear(width, WORDS)

    def forward(self, x):
        return self.head(self.body(self.first(x)).mean((2, 3)))


def main():
    data = Recordings(N)
    loader = DataLoader(data, batch_size=64, shuffle=True)
    model = DSCNN().cuda()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for step, (mel, word) in enumerate(loader):
        mel, word = mel.cuda(), word.cuda()
        loss = nn.functional.cross_entropy(model(mel), word)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print("step", step, "loss", loss.item())
        if step == 20:
            break


if __name__ == "__main__":
    main()
