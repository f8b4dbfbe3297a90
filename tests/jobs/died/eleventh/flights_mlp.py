"""Predicts delays of flights from a wide table with an MLP and embeddings of airports; the dataset class hands out rows to a DataLoader."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = torch.device("cuda")
ROWS, FEATURES, AIRPORTS, CARRIERS = 400_000, 256, 400, 20


class FlightsDataset(Dataset):
    def __init__(self, device):
        numbers = torch.zeros(ROWS, FEATURES)  # the table of the year, after the scaler
        places = torch.zeros(ROWS, 2, dtype=torch.long)
        carrier = torch.zeros(ROWS, dtype=torch.long)
        delay = torch.zeros(ROWS)
        self.numbers = numbers.to(device)
        self.places = places.to(device)
        self.carrier = carrier.to(device)
        self.delay = delay.to(device)

    def __len__(self):
        return ROWS

    def __getitems__(self, rows):
        rows = torch.tensor(rows, device=self.numbers.device)
        return self.numbers[rows], self.places[rows], self.carrier[rows], self.delay[rows]


class DelayModel(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.airport = nn.Embedding(AIRPORTS, 32)
        self.carrier = nn.Embedding(CARRIERS, 8)
        layers, size = [], FEATURES + 2 * 32 + 8
        for _ in range(3):
            layers += [nn.Linear(size, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2)]
            size = width
        self.layers = nn.Sequential(*layers, nn.Linear(size, 1))

    def forward(self, numbers, places, carrier):
        x = torch.cat([numbers, self.airport(places).flatten(1), self.carrier(carrier)], -1)
        return self.layers(x).squeeze(-1)


def fit(model, loader, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    criterion = nn.SmoothL1Loss()
    model.train()
    for step, batch in enumerate(loader):
        numbers, places, carrier, delay = (t.to(DEVICE) for t in batch)
        loss = criterion(model(numbers, places, carrier), delay)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print("step", step, "loss", loss.item())
        if step == steps:
            break


if __name__ == "__main__":
    model = DelayModel().to(DEVICE)
    print(sum(p.numel() for p in model.parameters()), "parameters")
    dataset = FlightsDataset("cpu" if "--fixed" in sys.argv else DEVICE)
    sampler = torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=4096 * 40)
    loader = DataLoader(dataset, batch_size=4096, sampler=sampler, collate_fn=lambda batch: batch)
    fit(model, loader, 20)
