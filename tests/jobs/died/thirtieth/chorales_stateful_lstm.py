"""Learns chorales event by event with an LSTM whose state runs on through the whole piece."""
import sys

import torch
from torch import nn, optim

FIXED = "--fixed" in sys.argv
N_EVENTS = 388
CHUNK = 64
VOICES = 32


class ChoraleNet(nn.Module):
    def __init__(self, emb=256, hid=512, layers=2):
        super().__init__()
        self.encoder = nn.Embedding(N_EVENTS, emb)
        self.rnn = nn.LSTM(emb, hid, layers, dropout=0.2, batch_first=True)
        self.decoder = nn.Linear(hid, N_EVENTS)
        self.hid, self.layers = hid, layers

    def init_hidden(self, bsz):
        w = next(self.parameters())
        return w.new_zeros(self.layers, bsz, self.hid), w.new_zeros(self.layers, bsz, self.hid)

    def forward(self, x, hidden):
        out, hidden = self.rnn(self.encoder(x), hidden)
        return self.decoder(out), hidden


def load_piece(gen, chunks=40):
    return torch.randint(0, N_EVENTS, (VOICES, chunks * CHUNK + 1), generator=gen)


def repackage(hidden):
    return tuple(h.detach() for h in hidden)


net = ChoraleNet().cuda()
criterion = nn.CrossEntropyLoss()
optimizer = optim.RMSprop(net.parameters(), lr=5e-4)


def train_piece(piece):
    net.train()
    hidden = net.init_hidden(VOICES)
    loss, shown = 0, 0.0
    optimizer.zero_grad()
    starts = range(0, piece.shape[1] - 1, CHUNK)
    for i in starts:
        x = piece[:, i:i + CHUNK].cuda()
        y = piece[:, i + 1:i + CHUNK + 1].cuda()
        scores, hidden = net(x, hidden)
        step_loss = criterion(scores.reshape(-1, N_EVENTS), y.reshape(-1))
        if FIXED:
            (step_loss / len(starts)).backward()
            hidden = repackage(hidden)
            shown += step_loss.item()
        else:
            loss = loss + step_loss
    if not FIXED:
        loss = loss / len(starts)
        loss.backward()
        shown = loss.item() * len(starts)
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    return shown / len(starts)


if __name__ == "__main__":
    gen = torch.Generator().manual_seed(1685)
    for bwv in range(250, 255):
        print("BWV", bwv, "loss", train_piece(load_piece(gen)))
