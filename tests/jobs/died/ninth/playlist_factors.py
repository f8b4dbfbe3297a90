"""Neural matrix factorisation for playlists: factors of listeners and songs, Bayesian personalised ranking, sampled negatives."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

LISTENERS, SONGS, FACTORS = 700_000, 400_000, 64
FIXED = "--fixed" in sys.argv


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.listeners = nn.Embedding(LISTENERS, FACTORS, sparse=FIXED)
        self.songs = nn.Embedding(SONGS, FACTORS, sparse=FIXED)
        self.bias = nn.Embedding(SONGS, 1, sparse=FIXED)
        for table in self.listeners, self.songs, self.bias:
            nn.init.zeros_(table.weight)
        self.mix = nn.Sequential(nn.Linear(2 * FACTORS, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, who, what):
        u, s = self.listeners(who), self.songs(what)
        u = u[:, None].expand_as(s)
        return (u * s).sum(-1) + self.bias(what).squeeze(-1) + self.mix(torch.cat([u, s], -1)).squeeze(-1)


def optimizers(model):
    tables = [model.listeners.weight, model.songs.weight, model.bias.weight]
    if FIXED:
        return [torch.optim.SparseAdam(tables, lr=1e-3), torch.optim.Adam(model.mix.parameters(), lr=1e-3)]
    return [torch.optim.Adam(model.parameters(), lr=1e-3)]


def bpr(scores):
    heard, others = scores[:, :1], scores[:, 1:]
    return -F.logsigmoid(heard - others).mean()


def plays(batch, others=4):
    while True:
        yield torch.randint(0, LISTENERS, (batch,)), torch.randint(0, SONGS, (batch, 1 + others))


if __name__ == "__main__":
    model = Factors().to("cuda")
    all_optimizers = optimizers(model)
    stream = plays(4096)
    for step in range(6):
        who, what = next(stream)
        loss = bpr(model(who.to("cuda"), what.to("cuda")))
        loss.backward()
        for optimizer in all_optimizers:
            optimizer.step()
            optimizer.zero_grad()
        print("step", step, "loss", loss.item())
