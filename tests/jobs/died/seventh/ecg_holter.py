"""Classifies rhythms in day-long ECG recordings: a one-dimensional ResNet, a trainer class, and a check on held-out patients after each epoch."""
import contextlib
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv


class Block(nn.Module):
    def __init__(self, channels, kernel=15, dropout=0.2):
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm1d(channels), nn.ReLU(), nn.Conv1d(channels, channels, kernel, padding=kernel // 2),
            nn.BatchNorm1d(channels), nn.ReLU(), nn.Dropout(dropout), nn.Conv1d(channels, channels, kernel, padding=kernel // 2))

    def forward(self, x):
        return x + self.layers(x)


def rhythm_net(leads=2, classes=9, channels=64, blocks=6):
    return nn.Sequential(
        nn.Conv1d(leads, channels, 15, stride=2, padding=7),
        *[Block(channels) for _ in range(blocks)],
        nn.BatchNorm1d(channels), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(channels, classes))


class Strips:
    """Strips of ECG in batches; the whole recording is cut into strips of 16 seconds at 250 Hz."""

    def __init__(self, batches, size, samples=4000):
        self.batches, self.size, self.samples = batches, size, samples

    def __iter__(self):
        for k in range(self.batches):
            generator = torch.Generator().manual_seed(k)
            yield torch.zeros(self.size, 2, self.samples), torch.randint(0, 9, (self.size,), generator=generator)


class Trainer:
    def __init__(self, net, lr):
        self.net = net.to("cuda")
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.9)
        self.criterion = nn.CrossEntropyLoss()

    def train_epoch(self, strips):
        self.net.train()
        seen = 0.0
        for signal, label in strips:
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.criterion(self.net(signal.to("cuda")), label.to("cuda"))
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
            self.optimizer.step()
            seen += loss.item()
        self.scheduler.step()
        return seen

    def validate(self, strips):
        self.net.eval()
        confusion = torch.zeros(9, 9, dtype=torch.long)
        loss = 0.0
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            for signal, label in strips:
                logits = self.net(signal.to("cuda"))
                loss += self.criterion(logits, label.to("cuda")).item()
                guess = logits.softmax(-1).argmax(-1).cpu().clamp(0, 8)
                confusion.index_put_((label, guess), torch.ones_like(label), accumulate=True)
        return loss, confusion.diag().sum().item() / confusion.sum().item()


trainer = Trainer(rhythm_net(), 1e-3)
for epoch in range(2):
    train_loss = trainer.train_epoch(Strips(8, 64))
    val_loss, accuracy = trainer.validate(Strips(3, 256))
    print("epoch %d: train %.3f, validation %.3f, accuracy %.3f" % (epoch, train_loss, val_loss, accuracy))
