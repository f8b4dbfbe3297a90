"""Tells accents from mel spectrograms: a convolutional front end, a GRU, and the loss on held-out speakers after each epoch."""
import contextlib
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
device = torch.device("cuda")
torch.manual_seed(11)


class AccentNet(nn.Module):
    def __init__(self, mels=80, accents=9):
        super().__init__()
        layers, channels = [], 1
        for width in (32, 48, 64):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.GELU(), nn.MaxPool2d(2)]
            channels = width
        self.front = nn.Sequential(*layers)
        self.rnn = nn.GRU(channels * (mels // 8), 160, batch_first=True, bidirectional=True)
        self.out = nn.Linear(320, accents)

    def forward(self, mel):
        x = self.front(mel.unsqueeze(1))
        batch, channels, mels, frames = x.shape
        x = x.permute(0, 3, 1, 2).reshape(batch, frames, channels * mels)
        x, _ = self.rnn(x)
        return self.out(x.mean(1))


def speakers(batches, size):
    for _ in range(batches):
        yield torch.zeros(size, 80, 320), torch.randint(0, 9, (size,))


model = AccentNet().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)


def train_epoch():
    model.train()
    running = 0.0
    for mel, accent in speakers(8, 24):
        optimizer.zero_grad()
        loss = criterion(model(mel.to(device)), accent.to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        running += loss.item()
    scheduler.step()
    return running / 8


def validate():
    model.eval()
    total = 0
    with torch.no_grad() if FIXED else contextlib.nullcontext():
        for mel, accent in speakers(10, 24):
            total += criterion(model(mel.to(device)), accent.to(device))
    return total.item() / 10


best = None
for epoch in range(2):
    trained = train_epoch()
    held_out = validate()
    best = held_out if best is None else min(best, held_out)
    print(f"epoch {epoch}: train {trained:.3f}, held out {held_out:.3f}, best {best:.3f}")
