"""Maps the height of forests on two GPUs; the validation gathers the maps of both to compute one figure over all of them."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


class Canopy(nn.Module):
    def __init__(self, bands=10, width=48):
        super().__init__()
        layers, before = [], bands
        for _ in range(5):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            before = width
        self.body, self.height = nn.Sequential(*layers), nn.Conv2d(width, 4, 1)

    def forward(self, tile):
        return self.height(self.body(tile))


def tiles(count, batch):
    for _ in range(count):
        yield torch.zeros(batch, 10, 128, 128), torch.zeros(batch, 4, 128, 128)


def gathered(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return torch.cat(parts)


@torch.no_grad()
def validate(model):
    model.eval()
    guesses, truths = [], []
    for tile, height in tiles(40, 16):
        guess, truth = gathered(model(tile.cuda())), gathered(height.cuda())
        if FIXED:
            guess, truth = guess.cpu(), truth.cpu()
        guesses.append(guess)
        truths.append(truth)
    squares = sum(F.mse_loss(g, t).item() for g, t in zip(guesses, truths))
    return (squares / len(guesses)) ** 0.5


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DistributedDataParallel(Canopy().cuda(), device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(2):
        model.train()
        for tile, height in tiles(4, 8):
            loss = F.smooth_l1_loss(model(tile.cuda()), height.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        error = validate(model.module)
        if dist.get_rank() == 0:
            print("epoch", epoch, "loss", loss.item(), "error in metres", error)


main()
