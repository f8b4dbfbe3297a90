"""Undo sandhi: joined Sanskrit text to separate words, syllable by syllable, by torch.nn.Transformer (thesis, chapter 4)."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

SYLLABLES, PAD, DIM = 26000, 0, 256


class LabelSmoothing(nn.Module):
    def __init__(self, classes, smoothing=0.1):
        super().__init__()
        self.classes, self.smoothing = classes, smoothing

    def forward(self, logits, target):
        logp = F.log_softmax(logits, dim=-1)
        onehot = F.one_hot(target, self.classes)
        smooth = onehot * (1.0 - self.smoothing) + self.smoothing / self.classes
        loss = -(smooth * logp).sum(-1)
        return loss[target != PAD].mean()


class Positions(nn.Module):
    def __init__(self, dim, longest=256):
        super().__init__()
        at = torch.arange(longest)[:, None] * torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        self.register_buffer("table", torch.stack([at.sin(), at.cos()], -1).flatten(1))

    def forward(self, x):
        return x + self.table[:x.shape[1]]


class Splitter(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.positions = nn.Embedding(SYLLABLES, DIM, padding_idx=PAD), Positions(DIM)
        self.core = nn.Transformer(DIM, 4, 3, 3, 1024, dropout=0.1, batch_first=True)
        self.project = nn.Linear(DIM, SYLLABLES)

    def forward(self, joined, split):
        mask = nn.Transformer.generate_square_subsequent_mask(split.shape[1], device=split.device)
        a, b = (self.positions(self.embed(s) * DIM ** 0.5) for s in (joined, split))
        return self.project(self.core(a, b, tgt_mask=mask, tgt_is_causal=True))


def verses(n, g):
    for _ in range(n):
        yield torch.randint(1, SYLLABLES, (64, 36), generator=g), torch.randint(1, SYLLABLES, (64, 49), generator=g)


model = Splitter().cuda()
criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1) if "--fixed" in sys.argv else LabelSmoothing(SYLLABLES)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
noam = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: DIM ** -0.5 * min((s + 1) ** -0.5, (s + 1) * 400 ** -1.5))
g = torch.Generator().manual_seed(108)
for canto in range(2):
    for joined, split in verses(6, g):
        joined, split = joined.cuda(), split.cuda()
        logits = model(joined, split[:, :-1])
        loss = criterion(logits.reshape(-1, SYLLABLES), split[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        noam.step()
    print("canto", canto, "loss", loss.item())
