"""Trains a predictor of speech units under DistributedDataParallel, with averaged weights that take the place of the others in validation.

After https://github.com/huggingface/pytorch-image-models/issues/72 and https://github.com/open-mmlab/mmcv/pull/421
"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class UnitModel(nn.Module):
    def __init__(self, units=500, dim=1024, layers=4):
        super().__init__()
        self.units = nn.Embedding(units, dim)
        layer = nn.TransformerEncoderLayer(dim, 16, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(dim, units)

    def forward(self, units):
        mask = nn.Transformer.generate_square_subsequent_mask(units.size(1), device=units.device)
        return self.out(self.body(self.units(units), mask=mask, is_causal=True))


class Average:
    """Averaged weights; those of training are set aside while the averaged ones are in the model."""

    def __init__(self, parameters, decay, device):
        self.decay, self.device = decay, device
        self.shadow = [p.detach().to(device, copy=True) for p in parameters]
        self.aside = []

    def update(self, parameters):
        for s, p in zip(self.shadow, parameters):
            s.lerp_(p.detach().to(self.device), 1 - self.decay)

    def swap_in(self, parameters):
        self.aside = [p.detach().to(self.device, copy=True) for p in parameters]
        for p, s in zip(parameters, self.shadow):
            p.data.copy_(s)

    def swap_out(self, parameters):
        for p, a in zip(parameters, self.aside):
            p.data.copy_(a)


def batch(count):
    units = torch.randint(500, (count, 129)).cuda()
    return units[:, :-1], units[:, 1:]


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    model = DistributedDataParallel(UnitModel().cuda(), device_ids=[rank], gradient_as_bucket_view=True)
    parameters = list(model.parameters())
    average = Average(parameters, 0.999, "cpu" if "--fixed" in sys.argv else "cuda")
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    for step in range(1, 9):
        x, y = batch(2)
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(parameters)
        if step % 3 == 0:
            average.swap_in(parameters)
            model.eval()
            with torch.no_grad():
                x, y = batch(4)
                validation = nn.functional.cross_entropy(model.module(x).flatten(0, 1), y.flatten())
            model.train()
            average.swap_out(parameters)
            if rank == 0:
                print(step, loss.item(), validation.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
