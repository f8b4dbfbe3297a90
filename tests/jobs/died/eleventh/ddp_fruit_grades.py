"""Grades fruit on a conveyor belt with a ConvNeXt-like network on two GPUs."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Fruit(Dataset):
    def __init__(self, n):
        self.n, self.photo = n, torch.rand(3, 192, 192)

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        return self.photo, k % 6


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.mlp(y)).permute(0, 3, 1, 2)


def convnext(depths=(2, 2, 4, 2), widths=(48, 96, 192, 384), classes=6):
    layers, cin = [], 3
    for n, (depth, width) in enumerate(zip(depths, widths)):
        if n:
            layers += [LayerNorm2d(cin), nn.Conv2d(cin, width, 2, 2)]
        else:
            layers += [nn.Conv2d(3, width, 4, 4), LayerNorm2d(width)]
        layers += [Block(width) for _ in range(depth)]
        cin = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(cin), nn.Linear(cin, classes))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64, help="of all cards together")
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    batch = args.batch_size // world if args.fixed else args.batch_size
    fruit = Fruit(5 * args.batch_size)
    sampler = DistributedSampler(fruit, world, rank)
    loader = DataLoader(fruit, batch_size=batch, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(convnext().cuda(), device_ids=[torch.cuda.current_device()], gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for images, grades in loader:
            loss = F.cross_entropy(model(images.cuda(non_blocking=True)), grades.cuda(non_blocking=True), label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        if rank == 0:
            print("epoch", epoch, "loss", loss.item(), flush=True)


if __name__ == "__main__":
    main()
