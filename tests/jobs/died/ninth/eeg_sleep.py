"""Stages of sleep from polysomnography: a small convolutional encoder for each epoch of 30 s and a GRU over the night's epochs."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv
CHANNELS, RATE, EPOCH = 6, 100, 30


class Nights(Dataset):
    """Sequences of 20 epochs; NIGHTS recordings of six channels."""

    def __init__(self, nights, device, epochs=960, sequence=20):
        self.sequence = sequence
        self.signals, self.stages = [], []
        for _ in range(nights):
            signal = self.read(epochs)
            self.signals.append(signal.to(device))
            self.stages.append(torch.randint(0, 5, (epochs,)).to(device))
        self.per_night = epochs // sequence

    @staticmethod
    def read(epochs):
        return torch.zeros(epochs, CHANNELS, RATE * EPOCH)

    def __len__(self):
        return len(self.signals) * self.per_night

    def __getitem__(self, i):
        night, part = divmod(i, self.per_night)
        cut = slice(part * self.sequence, (part + 1) * self.sequence)
        return self.signals[night][cut], self.stages[night][cut]


class Sleeper(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(CHANNELS, width, 50, 6, 24), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(8),
            nn.Conv1d(width, width, 8, padding=4), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 8, padding=4), nn.BatchNorm1d(width), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten())
        self.gru = nn.GRU(4 * width, 128, batch_first=True, bidirectional=True)
        self.head = nn.Linear(256, 5)

    def forward(self, x):
        b, s = x.shape[:2]
        features = self.encoder(x.flatten(0, 1)).view(b, s, -1)
        return self.head(self.gru(features)[0])


def main():
    device = torch.device("cuda")
    model = Sleeper().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    nights = Nights(10, "cpu" if FIXED else device)
    loader = DataLoader(nights, batch_size=16, shuffle=True, drop_last=True)
    weights = torch.tensor([1.0, 2.5, 1.0, 1.5, 1.5], device=device)
    for step, (signal, stage) in enumerate(loader):
        signal, stage = signal.to(device), stage.to(device)
        loss = nn.functional.cross_entropy(model(signal).flatten(0, 1), stage.flatten(), weight=weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            print("step", step, loss.item())
        if step == 8:
            break


main()
