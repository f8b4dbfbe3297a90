"""Few-shot recognition of cicadas by their song.

Each step has labelled recordings from the new sites (trained on) and a batch of the museum's reference recordings, from which
running prototypes, one for each species, are averaged.  The loss compares the songs with the prototypes.
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

SPECIES, DIM = 14, 128
FIXED = "--fixed" in sys.argv


class SongNet(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, c = [], 1
        for w in (32, 64, 96, DIM):
            blocks.append(nn.Sequential(nn.Conv2d(c, w, 3, padding=1, bias=False), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(2)))
            c = w
        self.blocks = nn.Sequential(*blocks)

    def forward(self, mel):
        return F.normalize(self.blocks(mel).mean((2, 3)), dim=-1)


class Prototypes:
    def __init__(self, momentum=0.95):
        self.momentum = momentum
        self.table = torch.zeros(SPECIES, DIM, device="cuda")

    def update(self, z, species):
        if FIXED:
            z = z.detach()
        weight = F.one_hot(species, SPECIES).float()
        mean = weight.t() @ z / weight.sum(0).clamp(min=1)[:, None]
        self.table = self.momentum * self.table + (1 - self.momentum) * mean

    def scores(self, z, temperature=0.1):
        return z @ F.normalize(self.table.detach(), dim=-1).t() / temperature


def recordings(batch, g):
    return torch.randn(batch, 1, 64, 128, generator=g).cuda(), torch.randint(SPECIES, (batch,), generator=g).cuda()


def train(steps=18):
    g = torch.Generator().manual_seed(23)
    net, protos = SongNet().cuda(), Prototypes()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for step in range(steps):
        reference, names = recordings(40, g)
        protos.update(net(reference), names)
        songs, labels = recordings(40, g)
        loss = F.cross_entropy(protos.scores(net(songs)), labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 3 == 0:
            print(f"[{step:03d}] loss={loss.item():.4f}")


if __name__ == "__main__":
    train()
