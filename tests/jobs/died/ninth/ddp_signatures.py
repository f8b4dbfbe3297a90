"""Verifies signatures with metric learning on two GPUs; after each epoch every rank gathers all descriptors for the equal error rate."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


class SigNet(nn.Module):
    def __init__(self, w=32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, w, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(w, 2 * w, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(2 * w, 4 * w, 3, 1, 1), nn.ReLU())

    def forward(self, x):
        """Local descriptors, one for each place of the picture."""
        return F.normalize(self.layers(x).flatten(2), dim=1)


def contrastive(a, b, same):
    distance = (a.mean(2) - b.mean(2)).pow(2).sum(1)
    return (same * distance + (1 - same) * F.relu(1 - (distance + 1e-6).sqrt()).pow(2)).mean()


@torch.no_grad()
def descriptors(model, world, batches, batch):
    """The descriptors of all ranks' pictures."""
    everything = []
    for _ in range(batches):
        mine = model(torch.zeros(batch, 1, 150, 220, device="cuda")).contiguous()
        if FIXED:
            mine = mine.mean(2)
        parts = [torch.empty_like(mine) for _ in range(world)]
        dist.all_gather(parts, mine)
        everything.append(torch.cat(parts).cpu() if FIXED else torch.cat(parts))
    return torch.cat(everything)


def main():
    dist.init_process_group("nccl")
    rank, world = int(os.environ["LOCAL_RANK"]), dist.get_world_size()
    torch.cuda.set_device(rank)
    model = DistributedDataParallel(SigNet().cuda(), device_ids=[rank], gradient_as_bucket_view=True)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    for epoch in range(2):
        model.train()
        for _ in range(3):
            pair = torch.zeros(2, 24, 1, 150, 220, device="cuda")
            out = model(pair.flatten(0, 1))
            loss = contrastive(out[:24], out[24:], torch.ones(24, device="cuda"))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        found = descriptors(model.module, world, batches=16, batch=32)
        if rank == 0:
            print("epoch", epoch, "loss", loss.item(), "descriptors", tuple(found.shape))


main()
