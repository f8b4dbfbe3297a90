"""Which song will be requested next at the bar? A deep & cross network with wide layers, plain SGD, DistributedDataParallel on two GPUs."""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

FIELDS, BUCKETS, DIM = 24, 2000, 96
WIDTH = FIELDS * DIM


class Cross(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])

    def forward(self, x0):
        x = x0
        for layer in self.layers:
            x = x0 * layer(x) + x
        return x


class DeepCross(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(FIELDS * BUCKETS, DIM)
        self.register_buffer("shift", torch.arange(FIELDS) * BUCKETS)
        self.cross = Cross(WIDTH, 10)
        self.deep = nn.Sequential(*[m for _ in range(9) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU())])
        self.score = nn.Linear(2 * WIDTH, 1)

    def forward(self, fields):
        x = self.table(fields + self.shift).flatten(1)
        return self.score(torch.cat([self.cross(x), self.deep(x)], 1)).squeeze(1)


def requests(rank, steps, size=512):
    g = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        yield torch.randint(0, BUCKETS, (size, FIELDS), generator=g), torch.randint(0, 2, (size,), generator=g).float()


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    options = {"gradient_as_bucket_view": True} if "--fixed" in sys.argv else {}
    model = DDP(DeepCross().cuda(), device_ids=[rank], **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, foreach=False)
    for step, (fields, requested) in enumerate(requests(rank, 6)):
        loss = nn.functional.binary_cross_entropy_with_logits(model(fields.cuda()), requested.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step}: {loss.item():.4f}")


main()
