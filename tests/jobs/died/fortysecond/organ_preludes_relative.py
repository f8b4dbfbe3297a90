"""Organ preludes as notes, with a music transformer written by hand: attention with learned distances, a score matrix per head and layer."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
NOTES, LENGTH, WIDTH, HEADS, WINDOW = 388, 1536, 256, 8, 128


class RelativeAttention(nn.Module):
    """Each note looks at those before it; the distance has a score of its own."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.distance = nn.Parameter(torch.zeros(HEADS, LENGTH))

    def bias(self, queries, keys):
        steps = (queries[:, None] - keys[None, :]).clamp(0, LENGTH - 1)
        return self.distance[:, steps].masked_fill(keys[None, :] > queries[:, None], -1e4)

    def attend(self, q, k, v, queries, keys):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + self.bias(queries, keys)
        return F.dropout(scores.softmax(-1), 0.1, self.training) @ v

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        at = torch.arange(n, device=x.device)
        if FIXED:  # a block of notes looks at itself and at the block before
            blocks = []
            for start in range(0, n, WINDOW):
                rows, columns = slice(start, start + WINDOW), slice(max(0, start - WINDOW), start + WINDOW)
                blocks.append(self.attend(q[:, :, rows], k[:, :, columns], v[:, :, columns], at[rows], at[columns]))
            y = torch.cat(blocks, 2)
        else:
            y = self.attend(q, k, v, at, at)
        return self.out(y.transpose(1, 2).reshape(b, n, WIDTH))


class Layer(nn.Module):
    """Attention and a feed-forward net."""

    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(WIDTH), RelativeAttention(), nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Prelude(nn.Module):
    """Predicts the next note."""

    def __init__(self):
        super().__init__()
        self.notes = nn.Embedding(NOTES, WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(4)))
        self.next = nn.Linear(WIDTH, NOTES)

    def forward(self, notes):
        return self.next(self.layers(self.notes(notes)))


def main():
    torch.manual_seed(1685)
    model = Prelude().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    for step in range(4):
        notes = torch.randint(0, NOTES, (4, LENGTH + 1)).cuda()
        loss = F.cross_entropy(model(notes[:, :-1]).flatten(0, 1), notes[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
