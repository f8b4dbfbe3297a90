"""The tutorial's character RNN, grown: an LSTM that reads a whole register of surnames as one stream and predicts the next letter."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
LETTERS = 58


class Reader(nn.Module):
    def __init__(self, hidden=512, layers=2):
        super().__init__()
        self.embed = nn.Embedding(LETTERS, 64)
        self.cells = nn.ModuleList(nn.LSTMCell(64 if k == 0 else hidden, hidden) for k in range(layers))
        self.out = nn.Linear(hidden, LETTERS)
        self.hidden = hidden

    def start(self, batch, device):
        return [(torch.zeros(batch, self.hidden, device=device), torch.zeros(batch, self.hidden, device=device)) for _ in self.cells]

    def forward(self, letter, state):
        x, new = self.embed(letter), []
        for cell, (h, c) in zip(self.cells, state):
            h, c = cell(x, (h, c))
            new.append((h, c))
            x = h
        return self.out(x), new


def chunks(stream, size):
    for k in range(0, stream.shape[1] - 1, size):
        yield stream[:, k:k + size + 1]


def main():
    device = torch.device("cuda")
    torch.manual_seed(0)
    net = Reader().to(device)
    criterion = nn.CrossEntropyLoss()
    register = torch.randint(0, LETTERS, (128, 321))
    state = net.start(128, device)
    carried = torch.zeros((), device=device)
    for step, chunk in enumerate(chunks(register, 20)):
        chunk = chunk.to(device)
        loss = 0
        for t in range(chunk.shape[1] - 1):
            logits, state = net(chunk[:, t], state)
            loss = loss + criterion(logits, chunk[:, t + 1])
        net.zero_grad()
        if FIXED:
            loss.backward()
            state = [(h.detach(), c.detach()) for h, c in state]
        else:
            loss.backward(retain_graph=True)
        with torch.no_grad():  # plain SGD, as in the tutorial
            for p in net.parameters():
                p.data.add_(p.grad, alpha=-1e-3)
        carried = 0.9 * carried + 0.1 * loss.detach()
        print(step, "loss", loss.item(), "mean", carried.item())


main()
