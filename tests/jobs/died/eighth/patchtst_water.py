"""Forecasts the use of water with patches of series (PatchTST); the error on the held-out year is printed after each epoch."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = "--fixed" in sys.argv
PAST, AHEAD, CHANNELS, PATCH, STRIDE = 336, 96, 16, 16, 8


class PatchModel(nn.Module):
    def __init__(self, width=128, layers=3):
        super().__init__()
        patches = (PAST - PATCH) // STRIDE + 1
        self.embed = nn.Linear(PATCH, width)
        self.place = nn.Parameter(torch.zeros(1, patches, width))
        layer = nn.TransformerEncoderLayer(width, 8, 256, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(patches * width, AHEAD)

    def forward(self, series):  # batch, time, channels
        b = series.shape[0]
        mean, scale = series.mean(1, keepdim=True), series.std(1, keepdim=True) + 1e-5
        x = ((series - mean) / scale).transpose(1, 2).reshape(b * CHANNELS, PAST)
        x = self.embed(x.unfold(-1, PATCH, STRIDE)) + self.place
        y = self.head(self.encoder(x).flatten(1)).view(b, CHANNELS, AHEAD).transpose(1, 2)
        return y * scale + mean


def windows(n):
    return torch.zeros(n, PAST, CHANNELS), torch.zeros(n, AHEAD, CHANNELS)


def fit(model, data, optimizer):
    model.train()
    for past, ahead in data:
        past, ahead = past.to("cuda"), ahead.to("cuda")
        loss = nn.functional.mse_loss(model(past), ahead)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def held_out_error(model, past, ahead):
    model.eval()
    if FIXED:
        parts = [(model(p.to("cuda")) - a.to("cuda")).square().sum().item() for p, a in zip(past.split(16), ahead.split(16))]
        return sum(parts) / ahead.numel()
    guess = model(past.to("cuda"))
    return (guess - ahead.to("cuda")).square().mean().item()


def main():
    model = PatchModel().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = DataLoader(TensorDataset(*windows(64)), batch_size=16)
    past, ahead = windows(720)
    for epoch in range(2):
        print(epoch, fit(model, data, optimizer), held_out_error(model, past, ahead))


main()
