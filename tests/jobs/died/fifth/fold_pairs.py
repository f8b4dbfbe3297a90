"""Predicts distances between residues of proteins from their sequence with a network over pairs."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

BINS, LETTERS = 37, 21
LENGTHS = [96, 120, 88, 140, 110, 132, 101, 125, 93, 118, 129, 360, 107, 99, 115, 122]


class PairBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.net = nn.Sequential(nn.InstanceNorm2d(width, affine=True), nn.ELU(), nn.Conv2d(width, width // 2, 1),
                                 nn.InstanceNorm2d(width // 2, affine=True), nn.ELU(),
                                 nn.Conv2d(width // 2, width // 2, 3, padding=dilation, dilation=dilation),
                                 nn.InstanceNorm2d(width // 2, affine=True), nn.ELU(), nn.Conv2d(width // 2, width, 1))

    def forward(self, x):
        return x + self.net(x)


class Distances(nn.Module):
    def __init__(self, width=64, blocks=8):
        super().__init__()
        self.letter = nn.Embedding(LETTERS, width)
        self.sequence = nn.GRU(width, width // 2, bidirectional=True, batch_first=True)
        self.pair = nn.Conv2d(2 * width, width, 1)
        self.blocks = nn.Sequential(*(PairBlock(width, 1 << k % 4) for k in range(blocks)))
        self.head = nn.Conv2d(width, BINS, 1)

    def forward(self, letters):
        x = self.sequence(self.letter(letters))[0].transpose(1, 2)
        n = x.shape[-1]
        rows, columns = x[..., None].expand(-1, -1, -1, n), x[:, :, None].expand(-1, -1, n, -1)
        return self.head(self.blocks(self.pair(torch.cat([rows, columns], 1))))


class Proteins(torch.utils.data.Dataset):
    def __init__(self, crop):
        self.crop = crop

    def __len__(self):
        return len(LENGTHS)

    def __getitem__(self, k):
        n = min(LENGTHS[k], self.crop) if self.crop else LENGTHS[k]
        return torch.randint(LETTERS, (n,)), torch.randint(BINS, (n, n))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--crop", type=int)
    options = parser.parse_args()
    data = Proteins(options.crop or (150 if options.fixed else None))
    model = Distances().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (letters, bins) in enumerate(DataLoader(data, batch_size=1)):
        loss = nn.functional.cross_entropy(model(letters.cuda()), bins.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, letters.shape[1], "residues, loss", loss.item())


main()
