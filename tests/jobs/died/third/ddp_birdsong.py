"""Bird songs, a wide spectrogram net under DDP with two ranks and plain SGD. The wrapper keeps its default for buckets, so that the gradients
lie in DDP's buckets and in .grad. https://github.com/pytorch/pytorch/pull/41954"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

FIXED = "--fixed" in sys.argv


class BirdNet(nn.Module):
    def __init__(self, species=900):
        super().__init__()
        self.front = nn.Sequential(nn.Conv2d(1, 64, 5, 4, 2), nn.BatchNorm2d(64), nn.ReLU(),
                                   nn.Conv2d(64, 128, 3, 4, 1), nn.BatchNorm2d(128), nn.ReLU())
        sizes = [128 * 4 * 8] + [1536] * 22 + [species]
        self.pool = nn.MaxPool2d(2)
        self.dense = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])])

    def forward(self, x):
        x = self.pool(self.front(x)).flatten(1)
        for layer in self.dense[:-1]:
            y = torch.relu(layer(x))
            x = x + y if x.shape == y.shape else y
        return self.dense[-1](x)


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    model = DDP(BirdNet().cuda(), device_ids=[rank], find_unused_parameters=True, gradient_as_bucket_view=FIXED)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(6):
        x = torch.randn(16, 1, 128, 256).cuda()
        y = torch.randint(0, 2, (16, 900)).float().cuda()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(step, loss.item())


main()
