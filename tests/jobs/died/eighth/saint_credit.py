"""SAINT on credit records: attention over the columns of a record, then over the records of the batch."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 256 if "--fixed" in sys.argv else 2048
COLUMNS, WIDTH, HEADS = 24, 16, 8


class Attention(nn.Module):
    def __init__(self, width, heads=HEADS):
        super().__init__()
        self.norm, self.heads = nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-1, -2) / (w // self.heads) ** 0.5
        y = scores.softmax(-1) @ v
        return x + self.out(y.transpose(1, 2).reshape(b, n, w))


class Feed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.net(x)


class Saint(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(COLUMNS, WIDTH)), nn.Parameter(torch.zeros(COLUMNS, WIDTH))
        self.columns = nn.ModuleList(nn.Sequential(Attention(WIDTH), Feed(WIDTH)) for _ in range(depth))
        self.records = nn.ModuleList(nn.Sequential(Attention(COLUMNS * WIDTH), Feed(COLUMNS * WIDTH)) for _ in range(depth))
        self.head = nn.Linear(COLUMNS * WIDTH, 2)

    def forward(self, x):
        x = x.unsqueeze(-1) * self.scale + self.shift
        for columns, records in zip(self.columns, self.records):
            x = columns(x)
            x = records(x.flatten(1).unsqueeze(0)).view(-1, COLUMNS, WIDTH)
        return self.head(x.flatten(1))


def main():
    model = Saint().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    records, defaults = torch.zeros(3 * BATCH, COLUMNS), torch.randint(0, 2, (3 * BATCH,))
    for step, (x, y) in enumerate(zip(records.split(BATCH), defaults.split(BATCH))):
        loss = F.cross_entropy(model(x.to("cuda")), y.to("cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


main()
