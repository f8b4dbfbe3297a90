"""Predicts the next pitch of theremin recordings, in chunks: the state goes from one to the next, and there is one step of Adam per piece."""
import sys

import torch
from torch import nn, optim

FIXED = "--fixed" in sys.argv
PITCHES, CHUNK, VOICES = 360, 300, 48


class Theremin(nn.Module):
    def __init__(self, embed=128, hidden=320, layers=2):
        super().__init__()
        self.layers, self.hidden = layers, hidden
        self.embed = nn.Embedding(PITCHES, embed)
        self.gru = nn.GRU(embed, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, PITCHES)

    def start(self, voices):
        return torch.zeros(self.layers, voices, self.hidden, device="cuda")

    def forward(self, pitch, state):
        y, state = self.gru(self.embed(pitch), state)
        return self.out(y), state


def pieces(count, chunks):
    rng = torch.Generator().manual_seed(1920)
    for _ in range(count):
        yield torch.randint(PITCHES, (VOICES, chunks * CHUNK + 1), generator=rng)


def train_piece(model, piece, opt):
    opt.zero_grad()
    state = model.start(VOICES)
    total, chunks = 0.0, (piece.shape[1] - 1) // CHUNK
    for c in range(chunks):
        window = piece[:, c * CHUNK:(c + 1) * CHUNK + 1].cuda()
        logits, state = model(window[:, :-1], state)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten()) / chunks
        if FIXED:
            loss.backward()
            state = state.detach()
        else:
            loss.backward(retain_graph=True)
        total += loss.item()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    opt.step()
    return total


if __name__ == "__main__":
    net = Theremin().cuda()
    adam = optim.Adam(net.parameters(), lr=1e-3)
    for n, piece in enumerate(pieces(3, 12)):
        print("piece", n, "nats", train_piece(net, piece, adam))
