"""Self-attentive recommender (SASRec) over mixtapes: the next song out of 60000."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

SONGS, LENGTH = 60000, 80


class Mixtapes(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randint(1, SONGS, (LENGTH + 1,), generator=g)


class SASRec(nn.Module):
    def __init__(self, dim=96, layers=2, heads=2, dropout=0.2):
        super().__init__()
        self.songs, self.places = nn.Embedding(SONGS, dim, padding_idx=0), nn.Embedding(LENGTH, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, tape):
        x = self.songs(tape) * self.songs.embedding_dim ** 0.5 + self.places.weight
        return self.encoder(x, mask=self.mask, is_causal=True)


def cross_entropy(hidden, table, target):
    return F.cross_entropy(hidden @ table.t(), target, reduction="sum")


def next_song_loss(hidden, table, target):
    hidden, target = hidden.flatten(0, 1), target.flatten()
    if "--fixed" in sys.argv:
        parts = zip(hidden.split(512), target.split(512))
        total = sum(checkpoint(cross_entropy, h, table, t, use_reentrant=False) for h, t in parts)
    else:
        total = cross_entropy(hidden, table, target)
    return total / target.numel()


def main():
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = SASRec()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    loader = DataLoader(Mixtapes(), batch_size=64, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for number, tape in enumerate(loader):
        with accelerator.accumulate(model):
            hidden = model(tape[:, :-1])
            loss = next_song_loss(hidden, model.songs.weight, tape[:, 1:])
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if number % 4 == 3:
            accelerator.print("batch", number, "loss", loss.item())


if __name__ == "__main__":
    main()
