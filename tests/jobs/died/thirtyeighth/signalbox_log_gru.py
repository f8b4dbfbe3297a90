"""
Language of signal-box logs ("2 beats, up goods, line clear").
A stateful GRU reads a whole day of the log window by window, so that it may remember which train is in which section.
"""
import sys

import torch
from torch import nn

DEVICE = torch.device("cuda")
WORDS, WINDOW, WINDOWS, BOXES = 4000, 64, 20, 48


class SignalmanModel(nn.Module):
    def __init__(self, dim=384, layers=2):
        super().__init__()
        self.embed = nn.Embedding(WORDS, dim)
        self.rnn = nn.GRU(dim, dim, layers, batch_first=True, dropout=0.1)
        self.norm = nn.LayerNorm(dim)
        self.project = nn.Linear(dim, WORDS)

    def forward(self, tokens, memory=None):
        states, memory = self.rnn(self.embed(tokens), memory)
        return self.project(self.norm(states)), memory


def days(count):
    generator = torch.Generator().manual_seed(1889)
    for _ in range(count):
        yield torch.randint(0, WORDS, (BOXES, WINDOW * WINDOWS + 1), generator=generator)


def whole_day(model, log, criterion):
    memory, total = None, 0.0
    for start in range(0, WINDOW * WINDOWS, WINDOW):
        piece = log[:, start:start + WINDOW + 1].to(DEVICE)
        logits, memory = model(piece[:, :-1], memory)
        total = total + criterion(logits.flatten(0, 1), piece[:, 1:].flatten())
    (total / WINDOWS).backward()
    return (total / WINDOWS).item()


def windowed_day(model, log, criterion):
    memory, total = None, 0.0
    for start in range(0, WINDOW * WINDOWS, WINDOW):
        piece = log[:, start:start + WINDOW + 1].to(DEVICE)
        logits, memory = model(piece[:, :-1], memory)
        loss = criterion(logits.flatten(0, 1), piece[:, 1:].flatten()) / WINDOWS
        loss.backward()
        memory = memory.detach()
        total += loss.item()
    return total


def main(argv):
    read = windowed_day if "--fixed" in argv else whole_day
    model = SignalmanModel().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for number, log in enumerate(days(3)):
        optimizer.zero_grad()
        loss = read(model, log, criterion)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        print("day", number, "loss", loss)


if __name__ == "__main__":
    main(sys.argv[1:])
