"""Predicts thunderstorms within six hours from balloon soundings of twelve stations: a GRU over the levels of a profile."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split

device = "cuda" if torch.cuda.is_available() else "cpu"
KEEP_ON = "cpu" if "--fixed" in sys.argv else device
LEVELS, VARIABLES = 380, 8


class SoundingDataset(Dataset):
    def __init__(self, n_profiles=90_000):
        pressure = torch.linspace(1000, 30, LEVELS)
        profiles = torch.zeros(n_profiles, LEVELS, VARIABLES)
        profiles[..., 0] = pressure
        labels = (torch.arange(n_profiles) % 9 == 0).float()
        self.mean, self.std = profiles[:512].mean((0, 1)), profiles[:512].std((0, 1)) + 1e-6
        self.profiles = profiles.to(KEEP_ON)
        self.labels = labels.to(KEEP_ON)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        return self.profiles[idx], self.labels[idx]


class StormGRU(nn.Module):
    def __init__(self, mean, std, hidden=128):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.squeeze = nn.Conv1d(VARIABLES, 32, 5, stride=4)
        self.gru = nn.GRU(32, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Linear(2 * hidden, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 1))

    def forward(self, x):
        x = (x - self.mean) / self.std
        x = self.squeeze(x.transpose(1, 2)).transpose(1, 2)
        out, _ = self.gru(x)
        return self.head(out.mean(1)).squeeze(1)


def main():
    dataset = SoundingDataset()
    train_set, val_set = random_split(dataset, [len(dataset) - 3000, 3000], generator=torch.Generator().manual_seed(0))
    train_loader = DataLoader(train_set, batch_size=128, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=128)
    model = StormGRU(dataset.mean, dataset.std).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(8.0, device=device))
    for i, (x, y) in enumerate(train_loader):
        x, y = x.to(device), y.to(device)
        loss = loss_fn(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i == 14:
            break
    model.eval()
    with torch.no_grad():
        scores = [model(x.to(device)).cpu() for x, _ in val_loader]
    print("train", loss.item(), "validated", torch.cat(scores).shape[0])


main()
