"""Finds methane plumes in satellite images with DDP on two GPUs; both processes start from the weights and momenta of the last run."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


class Mix(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.space = nn.BatchNorm2d(width), nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.feed = nn.Sequential(nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1))

    def forward(self, x):
        return x + self.feed(self.space(self.norm(x)))


class PlumeNet(nn.Module):
    def __init__(self, bands=12, width=640, depth=14):
        super().__init__()
        self.stem, self.body = nn.Conv2d(bands, width, 8, 8), nn.Sequential(*[Mix(width) for _ in range(depth)])
        self.out = nn.Conv2d(width, 64, 1)

    def forward(self, x):
        return nn.functional.pixel_shuffle(self.out(self.body(self.stem(x))), 8)


def last_run(path):
    """Stands for what the run of last week saved, from its first GPU."""
    model = PlumeNet().cuda()
    momenta = {n: {"momentum_buffer": torch.zeros_like(p)} for n, p in enumerate(model.parameters())}
    average = {k: v.clone() for k, v in model.state_dict().items()}
    torch.save({"model": model.state_dict(), "ema": average, "momenta": momenta, "epoch": 12}, path)


def load(path, model, optimizer):
    checkpoint = torch.load(path, map_location="cpu") if FIXED else torch.load(path)
    model.load_state_dict(checkpoint["model"])
    state = optimizer.state_dict()
    state["state"] = checkpoint["momenta"]
    optimizer.load_state_dict(state)
    return checkpoint


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    path = os.path.join(tempfile.gettempdir(), "plumes-%s-%s.pt" % (os.environ["MASTER_PORT"], os.getppid()))
    if rank == 0:
        last_run(path)
        torch.cuda.empty_cache()
    dist.barrier()
    model = PlumeNet().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
    checkpoint = load(path, model, optimizer)
    dist.barrier()
    if rank == 0:
        os.unlink(path)
    ddp = DistributedDataParallel(model, device_ids=[rank], gradient_as_bucket_view=True)
    for step in range(4):
        image, plume = torch.rand(3, 12, 128, 128).cuda(), torch.zeros(3, 1, 128, 128).cuda()
        loss = nn.functional.binary_cross_entropy_with_logits(ddp(image), plume)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print("epoch", checkpoint["epoch"], "step", step, loss.item())


main()
