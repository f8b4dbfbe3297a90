"""Learns a common space for sounds and their captions, with a symmetric contrastive loss over the pairs of a batch."""
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv
DIM = 512


class SoundCaptions(Dataset):
    def __init__(self, n):
        self.n = n
        self.mel = torch.randn(1, 64, 96)
        self.captions = torch.randint(1, 3000, (n, 24))

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        return self.mel, self.captions[k]


class SoundEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        widths = 1, 16, 32, 64, 128
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in zip(widths, widths[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in widths[1:])
        self.project = nn.Sequential(nn.Linear(128, DIM), nn.GELU(), nn.Linear(DIM, DIM))

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x)))
        return self.project(x.mean((2, 3)))


class CaptionEncoder(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.embed, self.place = nn.Embedding(3000, width), nn.Parameter(torch.zeros(24, width))
        layer = nn.TransformerEncoderLayer(width, 4, 256, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.project = nn.Linear(width, DIM)

    def forward(self, ids):
        return self.project(self.layers(self.embed(ids) + self.place).mean(1))


class ContrastiveLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(2.66))

    def similarity(self, a, b):
        if FIXED:
            return F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T
        return F.cosine_similarity(a.unsqueeze(1), b.unsqueeze(0), dim=-1)

    def forward(self, sounds, captions):
        logits = self.log_scale.exp() * self.similarity(sounds, captions)
        labels = torch.arange(len(logits), device=logits.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


def main():
    sounds, captions, criterion = SoundEncoder().cuda(), CaptionEncoder().cuda(), ContrastiveLoss().cuda()
    parameters = [p for m in (sounds, captions, criterion) for p in m.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.2)
    loader = DataLoader(SoundCaptions(512 * 4), batch_size=512, shuffle=True, drop_last=True)
    for step, (mel, ids) in enumerate(loader):
        loss = criterion(sounds(mel.cuda()), captions(ids.cuda()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
