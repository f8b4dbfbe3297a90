"""Hears faults of engines in recordings with a network of 1-D convolutions under Accelerate; eight micro-batches make an update."""
import sys

import torch
import torch.nn as nn
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv
MICRO, UPDATE_EVERY, SAMPLES, FAULTS = 8, 8, 16384, 14


class Recordings(Dataset):
    def __len__(self):
        return MICRO * UPDATE_EVERY * 3

    def __getitem__(self, n):
        return torch.zeros(1, SAMPLES), n % FAULTS


class Separable(nn.Module):
    def __init__(self, before, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(before, before, 9, 4, 4, groups=before), nn.Conv1d(before, width, 1), nn.BatchNorm1d(width), nn.ReLU(),
                                    nn.Conv1d(width, width, 5, 1, 2), nn.BatchNorm1d(width), nn.ReLU())

    def forward(self, x):
        return self.layers(x)


class EngineNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(1, 64, 33, 2, 16), nn.ReLU())
        self.body = nn.Sequential(Separable(64, 128), Separable(128, 192), Separable(192, 256), Separable(256, 384))
        self.head = nn.Linear(384, FAULTS)

    def forward(self, x):
        return self.head(self.body(self.front(x)).mean(-1))


def update(accelerator, model, optimizer, criterion, micro_batches):
    total = 0.0
    for sound, fault in micro_batches:
        loss = criterion(model(sound), fault) / len(micro_batches)
        if FIXED:
            accelerator.backward(loss)
            loss = loss.detach()
        total = total + loss
    if not FIXED:
        accelerator.backward(total)
    accelerator.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    optimizer.zero_grad()
    return total.item()


def main():
    accelerator = Accelerator()
    model = EngineNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Recordings(), batch_size=MICRO))
    criterion, waiting = nn.CrossEntropyLoss(), []
    for batch in loader:
        waiting.append(batch)
        if len(waiting) == UPDATE_EVERY:
            accelerator.print(update(accelerator, model, optimizer, criterion, waiting))
            waiting = []


main()
