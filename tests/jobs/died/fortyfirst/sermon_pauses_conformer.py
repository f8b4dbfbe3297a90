"""Marks breaths and pauses in recordings of sermons, a small conformer over mel frames. Most recordings are passages of half a minute."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
MELS, MARKS, WIDTH = 80, 6, 256
LONGEST = 3000  # frames


class ConvModule(nn.Module):
    """Pointwise, depthwise, pointwise."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.wide, self.deep, self.narrow = nn.Conv1d(WIDTH, 2 * WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 31, padding=15, groups=WIDTH), nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x):
        y = F.glu(self.wide(self.norm(x).transpose(1, 2)), 1)
        return x + self.narrow(F.silu(self.deep(y))).transpose(1, 2)


class ConformerBlock(nn.Module):
    """Attention within the recording, then convolutions, then a feed-forward layer."""

    def __init__(self, heads=4):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.conv = ConvModule()
        self.feed = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        x = self.conv(x)
        return x + self.feed(x)


class Marker(nn.Module):
    """A mark for every fourth frame."""

    def __init__(self, depth=6):
        super().__init__()
        self.enter = nn.Sequential(nn.Conv1d(MELS, WIDTH, 3, 2, 1), nn.SiLU(), nn.Conv1d(WIDTH, WIDTH, 3, 2, 1), nn.SiLU())
        self.blocks = nn.ModuleList(ConformerBlock() for _ in range(depth))
        self.mark = nn.Linear(WIDTH, MARKS)

    def forward(self, mels):
        x = self.enter(mels.transpose(1, 2)).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.mark(x)


def recordings():
    """(frames of each recording of a batch); the eighth batch holds a whole sermon of 11 minutes beside the passages."""
    g = torch.Generator().manual_seed(1739)
    for batch in range(11):
        lengths = torch.randint(2400, LONGEST, (8,), generator=g).tolist()
        if batch == 7:
            lengths[3] = 66000
        yield [min(n, LONGEST) for n in lengths] if FIXED else lengths


def collate(lengths, g):
    mels = torch.zeros(len(lengths), max(lengths), MELS)
    marks = torch.full((len(lengths), (max(lengths) + 3) // 4), -100)
    for i, n in enumerate(lengths):
        mels[i, :n] = torch.rand(n, MELS, generator=g)
        marks[i, :n // 4] = torch.randint(0, MARKS, (n // 4,), generator=g)
    return mels.cuda(), marks.cuda()


def main():
    torch.manual_seed(9)
    model = Marker().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    g = torch.Generator().manual_seed(40)
    for step, lengths in enumerate(recordings()):
        mels, marks = collate(lengths, g)
        scores = model(mels)
        loss = F.cross_entropy(scores.transpose(1, 2), marks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
