"""Prototypical networks for rare orchids (5 ways, 5 shots), with Accelerate. A step of the optimizer averages over eight episodes."""
import sys

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn

WAYS, SHOTS, QUERIES, EPISODES = 5, 5, 10, 8


def conv_block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))


class Embedder(nn.Sequential):
    def __init__(self, width=64):
        super().__init__(conv_block(3, width), conv_block(width, width), conv_block(width, width), conv_block(width, width), nn.Flatten())


class OrchidEpisodes(torch.utils.data.IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        g = torch.Generator().manual_seed(12)
        for _ in range(self.count):
            yield torch.rand(WAYS, SHOTS + QUERIES, 3, 84, 84, generator=g)


def episode_loss(model, flowers):
    codes = model(flowers.flatten(0, 1)).view(WAYS, SHOTS + QUERIES, -1)
    prototypes = codes[:, :SHOTS].mean(1)
    queries = codes[:, SHOTS:].reshape(WAYS * QUERIES, -1)
    distances = torch.cdist(queries, prototypes).square()
    labels = torch.arange(WAYS, device=codes.device).repeat_interleave(QUERIES)
    return F.cross_entropy(-distances, labels)


def main(each_by_itself):
    accelerator = Accelerator()
    model = Embedder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(OrchidEpisodes(EPISODES * 4), batch_size=None)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    pending, reported = 0.0, 0.0
    for number, flowers in enumerate(loader, 1):
        loss = episode_loss(model, flowers.to(accelerator.device)) / EPISODES
        reported += loss.detach()
        if each_by_itself:
            accelerator.backward(loss)
        else:
            pending = pending + loss
        if number % EPISODES == 0:
            if not each_by_itself:
                accelerator.backward(pending)
                pending = 0.0
            optimizer.step()
            optimizer.zero_grad()
            accelerator.print(f"meta-step {number // EPISODES}: {reported.item():.4f}")
            reported = 0.0


main("--fixed" in sys.argv)
