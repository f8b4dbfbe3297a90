"""Sleep stages from polysomnography: 30 s epochs of 8 channels at 100 Hz, CNN + GRU over five neighbouring epochs."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv
STAGES = ("W", "N1", "N2", "N3", "REM")


class SleepNights(Dataset):
    def __init__(self, nights, epochs_per_night=900, context=5, device="cuda"):
        self.context = context
        self.signals, self.stages = [], []
        for night in range(nights):
            raw = self.read_edf(night, epochs_per_night)
            raw = (raw - raw.mean()) / 5.0
            hypnogram = torch.arange(epochs_per_night) // 40 % len(STAGES)
            if not FIXED:
                raw, hypnogram = raw.to(device), hypnogram.to(device)
            self.signals.append(raw)
            self.stages.append(hypnogram)
        self.per_night = epochs_per_night - context + 1

    @staticmethod
    def read_edf(night, n):
        return torch.full((n, 8, 3000), 0.1 * night)

    def __len__(self):
        return len(self.signals) * self.per_night

    def __getitem__(self, i):
        night, k = divmod(i, self.per_night)
        return self.signals[night][k:k + self.context], self.stages[night][k + self.context // 2]


class StageNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv1d(8, width, 50, 6), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(8, 8),
            nn.Conv1d(width, width, 8, padding=4), nn.BatchNorm1d(width), nn.ReLU(), nn.AdaptiveAvgPool1d(8), nn.Flatten())
        self.gru = nn.GRU(width * 8, 128, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(256, len(STAGES)))

    def forward(self, x):
        b, t = x.shape[:2]
        h = self.cnn(x.flatten(0, 1)).view(b, t, -1)
        return self.head(self.gru(h)[0][:, t // 2])


def main():
    nights = SleepNights(14)
    gen = torch.Generator().manual_seed(30)
    subset = torch.utils.data.Subset(nights, torch.randperm(len(nights), generator=gen)[:1600].tolist())
    net = StageNet().cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    weight = torch.tensor([1.0, 2.5, 0.7, 1.2, 1.1]).cuda()
    for i, (x, y) in enumerate(DataLoader(subset, batch_size=128, shuffle=True)):
        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda(), weight=weight)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("batch", i, "loss", loss.item())


main()
