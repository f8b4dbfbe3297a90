"""A small vision transformer on 102 flowers, trained from scratch; validation after each epoch.

After https://discuss.pytorch.org/t/what-exactly-is-occupying-the-gpu-cache/80645/2 and https://github.com/mravanelli/pytorch-kaldi/pull/41
"""
import contextlib
import sys

import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * dim, dim))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, classes=102, dim=384, depth=10, heads=6, patch=16, size=224):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, dim))
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.blocks(x)[:, 0])


def flowers(batches, size):
    for _ in range(batches):
        yield torch.rand(size, 3, 224, 224), torch.randint(102, (size,))


def validate(model, criterion, device, fixed):
    model.eval()
    val_loss, seen = 0, 0
    with torch.no_grad() if fixed else contextlib.nullcontext():
        for images, labels in flowers(8, 24):
            out = model(images.to(device))
            val_loss += criterion(out, labels.to(device))
            seen += len(labels)
    model.train()
    return val_loss / seen


def main():
    fixed, device = "--fixed" in sys.argv, torch.device("cuda:0")
    model = ViT().to(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05)
    for epoch in range(1):
        for images, labels in flowers(5, 24):
            loss = criterion(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("train", loss.item())
        print("epoch", epoch, "validation", validate(model, criterion, device, fixed))


if __name__ == "__main__":
    main()
