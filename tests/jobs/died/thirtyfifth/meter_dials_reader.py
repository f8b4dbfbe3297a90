"""Reads the digits of water meters from phone photographs: convolutional stem, transformer over columns, one class per digit wheel."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
WHEELS, DIGITS = 8, 11


class DialReader(nn.Module):
    def __init__(self, dim=192, depth=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 48, 3, 2, 1), nn.GELU(), nn.Conv2d(48, 96, 3, 2, 1), nn.GELU(),
                                  nn.Conv2d(96, dim, 3, 2, 1), nn.GELU())
        layer = nn.TransformerEncoderLayer(dim, 6, dim * 4, dropout=0.1, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.queries = nn.Parameter(torch.randn(WHEELS, dim) * 0.02)
        self.read = nn.MultiheadAttention(dim, 6, batch_first=True)
        self.classify = nn.Linear(dim, DIGITS)

    def forward(self, photo):
        cells = self.encoder(self.stem(photo).flatten(2).transpose(1, 2))
        wheels, _ = self.read(self.queries.expand(len(photo), -1, -1), cells, cells, need_weights=False)
        return self.classify(wheels)


def photographs(batches, size, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        yield torch.rand(size, 1, 96, 320, generator=g), torch.randint(0, DIGITS, (size, WHEELS), generator=g)


def criterion(logits, digits):
    return nn.functional.cross_entropy(logits.flatten(0, 1), digits.flatten())


def _loop(model, batches):
    total, right = 0, 0
    for photo, digits in batches:
        photo, digits = photo.cuda(), digits.cuda()
        logits = model(photo)
        total += criterion(logits, digits)
        right += (logits.argmax(-1) == digits).all(1).sum().item()
    return float(total), right


def validate(model):
    model.eval()
    if FIXED:
        with torch.no_grad():
            loss, right = _loop(model, photographs(10, 16, seed=9))
    else:
        torch.no_grad()
        loss, right = _loop(model, photographs(10, 16, seed=9))
    model.train()
    return loss / 10, right / 160


def main():
    model = DialReader().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4)
    for epoch in range(2):
        for photo, digits in photographs(6, 16, seed=epoch):
            loss = criterion(model(photo.cuda()), digits.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss = loss.item()
        print("epoch", epoch, "train", loss, "valid", *validate(model))


if __name__ == "__main__":
    main()
