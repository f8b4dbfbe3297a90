"""Nowcasts of hail from radar films: a recurrent convolutional net sees six frames and predicts the next six."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = "--fixed" in sys.argv
SIDE, SEEN, AHEAD = 96, 6, 6


def films(n):
    """Films of the last two summers; kept as bytes on the disk."""
    g = torch.Generator().manual_seed(2023)
    return torch.randint(0, 256, (n, SEEN + AHEAD, 1, SIDE, SIDE), generator=g, dtype=torch.uint8)


class ConvGRUCell(nn.Module):
    """A GRU whose products are convolutions."""

    def __init__(self, cin, c):
        super().__init__()
        self.c = c
        self.gates, self.new = nn.Conv2d(cin + c, 2 * c, 3, padding=1), nn.Conv2d(cin + c, c, 3, padding=1)

    def forward(self, x, h):
        if h is None:
            h = x.new_zeros(len(x), self.c, *x.shape[-2:])
        r, z = self.gates(torch.cat([x, h], 1)).sigmoid().chunk(2, 1)
        n = self.new(torch.cat([x, r * h], 1)).tanh()
        return (1 - z) * n + z * h


class Nowcaster(nn.Module):
    """Encodes the frames that are seen, and unrolls the ones ahead."""

    def __init__(self, c=24):
        super().__init__()
        self.look = nn.Conv2d(1, c, 5, 4, 2)
        self.cell, self.ahead = ConvGRUCell(c, c), ConvGRUCell(c, c)
        self.show = nn.ConvTranspose2d(c, 1, 4, 4)

    def forward(self, seen):
        h = None
        for t in range(seen.shape[1]):
            h = self.cell(self.look(seen[:, t]), h)
        x, out = torch.zeros_like(h), []
        for _ in range(AHEAD):
            h = self.ahead(x, h)
            out.append(self.show(h))
            x = h
        return torch.stack(out, 1)


def dataset():
    x = films(900)
    if FIXED:
        return TensorDataset(x)
    x = x.cuda().float() / 255  # all at once: copying each batch was slow
    return TensorDataset(x)


def main():
    torch.manual_seed(7)
    loader = DataLoader(dataset(), batch_size=8, shuffle=True)
    model = Nowcaster().cuda()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    for step, (film,) in enumerate(loader):
        film = film.cuda()
        if film.dtype == torch.uint8:
            film = film.float() / 255
        seen, after = film[:, :SEEN], film[:, SEEN:]
        weight = 1 + 4 * after  # hail is rare
        loss = (weight * (model(seen) - after).abs()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print("step", step, "loss", loss.item())
        if step == 20:
            break


if __name__ == "__main__":
    main()
