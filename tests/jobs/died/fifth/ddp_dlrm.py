"""Predicts clicks on advertisements with a DLRM on two GPUs, data parallel."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

FIXED = "--fixed" in sys.argv
TABLES, DIM, DENSE = [300000, 200000, 150000, 80000, 20000, 5000], 96, 13


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers)


class DLRM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, DIM) for n in TABLES)
        self.bottom = mlp(DENSE, 512, 256, DIM)
        pairs = (len(TABLES) + 1) * len(TABLES) // 2
        self.top = nn.Sequential(mlp(DIM + pairs, 512, 256), nn.Linear(256, 1))
        self.register_buffer("pairs", torch.tril_indices(len(TABLES) + 1, len(TABLES) + 1, -1))

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        vectors = torch.stack([x] + [table(sparse[:, k]) for k, table in enumerate(self.tables)], 1)
        products = (vectors @ vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, products], 1)).squeeze(1)


def clicks(rank, batches, size):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(batches):
        sparse = torch.stack([torch.randint(n, (size,), generator=generator) for n in TABLES], 1)
        yield torch.rand(size, DENSE, generator=generator), sparse, torch.rand(size, generator=generator).round()


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    with torch.device("cuda"):
        model = DLRM()
    model = DDP(model, device_ids=[rank], gradient_as_bucket_view=True)
    if FIXED:
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-3, foreach=False)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    for step, (dense, sparse, click) in enumerate(clicks(rank, 4, 1024)):
        loss = F.binary_cross_entropy_with_logits(model(dense.cuda(), sparse.cuda()), click.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print("step", step, "loss", loss.item())
    dist.destroy_process_group()


main()
