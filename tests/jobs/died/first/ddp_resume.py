"""DDP on two GPUs: every rank loads the checkpoint that rank 0 has saved on its GPU.

https://github.com/pytorch/examples/issues/1078
"""
import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


class Tower(nn.Module):
    def __init__(self, width=2048, depth=10):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()) for _ in range(depth)])
        self.out = nn.Linear(width, 1000)

    def forward(self, x):
        return self.out(self.layers(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    path = os.path.join(tempfile.gettempdir(), "snapshot-%s.pt" % os.environ.get("TORCHELASTIC_RUN_ID", "0"))
    if rank == 0:  # an earlier run's file
        old = Tower().cuda()
        torch.save({"model": old.state_dict(), "ema": old.state_dict(), "best": {k: v.clone() for k, v in old.state_dict().items()}}, path)
        del old
    dist.barrier()
    snapshot = torch.load(path, map_location="cpu" if args.fixed else "cuda:0")
    dist.barrier()
    if rank == 0:
        os.remove(path)
    model = Tower().cuda()
    model.load_state_dict(snapshot["model"])
    model = DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(5):
        x, y = torch.randn(64, 2048, device="cuda"), torch.randint(0, 1000, (64,), device="cuda")
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
