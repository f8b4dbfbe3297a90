"""Spells out numbers and dates for a speech synthesizer: an encoder and a decoder of LSTMs over characters, with additive attention between them."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
CHARS, HIDDEN, BATCH, SOURCE, TARGET = 120, 192, 32, 140, 160


class Additive(nn.Module):
    """v tanh(W q + U k), for all positions of the target at once as they are known in training."""

    def __init__(self, dim):
        super().__init__()
        self.w, self.u = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, 1, bias=False)

    def forward(self, queries, keys):
        energy = torch.tanh(self.w(queries).unsqueeze(2) + self.u(keys).unsqueeze(1))
        return self.v(energy).squeeze(-1)


class Multiplicative(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w = nn.Linear(dim, dim, bias=False)

    def forward(self, queries, keys):
        return torch.bmm(self.w(queries), keys.transpose(1, 2))


class Speller(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(CHARS, 96), nn.Embedding(CHARS, 96)
        self.encoder = nn.LSTM(96, HIDDEN // 2, num_layers=2, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTM(96, HIDDEN, batch_first=True)
        self.attention = Multiplicative(HIDDEN) if FIXED else Additive(HIDDEN)
        self.combine = nn.Linear(2 * HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, CHARS)

    def forward(self, source, target):
        keys, _ = self.encoder(self.source(source))
        queries, _ = self.decoder(self.target(target))
        scores = self.attention(queries, keys).masked_fill((source == 0).unsqueeze(1), -1e9)
        context = torch.bmm(scores.softmax(-1), keys)
        return self.out(torch.tanh(self.combine(torch.cat([queries, context], -1))))


def sentences(steps):
    generator = torch.Generator().manual_seed(8)
    for _ in range(steps):
        yield torch.randint(1, CHARS, (BATCH, SOURCE), generator=generator), torch.randint(1, CHARS, (BATCH, TARGET + 1), generator=generator)


def fit(model, steps=8):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step, (source, target) in enumerate(sentences(steps)):
        source, target = source.cuda(), target.cuda()
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, CHARS), target[:, 1:].reshape(-1), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    fit(Speller().cuda())
