"""Classifies land use in satellite tiles on two GPUs with torchrun; the tiles are normalised with statistics of the training set."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv
local_rank = int(os.environ.get("LOCAL_RANK", 0))
torch.cuda.set_device(local_rank)
MEAN = torch.tensor([0.13, 0.11, 0.10, 0.24]).view(1, 4, 1, 1)
STD = torch.tensor([0.05, 0.05, 0.06, 0.09]).view(1, 4, 1, 1)


class ConvNeXtBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.depthwise = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.GroupNorm(1, dim)
        self.wide, self.narrow = nn.Conv2d(dim, 4 * dim, 1), nn.Conv2d(4 * dim, dim, 1)
        self.scale = nn.Parameter(torch.full((dim, 1, 1), 1e-2))

    def forward(self, x):
        return x + self.scale * self.narrow(F.gelu(self.wide(self.norm(self.depthwise(x)))))


class LandUse(nn.Module):
    def __init__(self, dims=(256, 512, 1024), depth=4, classes=17):
        super().__init__()
        layers, before = [], 4
        for n, dim in enumerate(dims):
            layers.append(nn.Conv2d(before, dim, 4 if n == 0 else 2, 4 if n == 0 else 2))
            layers += [ConvNeXtBlock(dim) for _ in range(depth)]
            before = dim
        self.body, self.head = nn.Sequential(*layers), nn.Linear(before, classes)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def main():
    device = torch.device("cuda", local_rank)
    dist.init_process_group("cpu:gloo,cuda:nccl")
    mean, std = MEAN.to(device), STD.to(device)
    tiles = TensorDataset(torch.zeros(256, 4, 64, 64), torch.arange(256) % 17)
    sampler = DistributedSampler(tiles, shuffle=True)
    loader = DataLoader(tiles, batch_size=16, sampler=sampler)
    model = DistributedDataParallel(LandUse().to(device), device_ids=[local_rank], gradient_as_bucket_view=FIXED)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        total = torch.zeros(1)
        for image, use in loader:
            image, use = (image.to(device) - mean) / std, use.to(device)
            loss = F.cross_entropy(model(image), use, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() / len(loader)
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print("epoch", epoch, "loss", total.item() / dist.get_world_size())


if __name__ == "__main__":
    main()
