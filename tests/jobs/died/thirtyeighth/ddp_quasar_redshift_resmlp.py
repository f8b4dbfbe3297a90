"""Redshifts of quasars from 1024-pixel spectra, residual MLP, plain SGD, two GPUs with DistributedDataParallel."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class ResMLP(nn.Module):
    def __init__(self, pixels=1024, width=1024, inner=3072, depth=48):
        super().__init__()
        self.first = nn.Linear(pixels, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, inner), nn.SiLU(), nn.Linear(inner, width)) for _ in range(depth))
        self.last = nn.Linear(width, 2)      # mean and log-variance of z

    def forward(self, flux):
        x = self.first(flux)
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


def nll(out, z):
    mean, logvar = out.unbind(-1)
    return (0.5 * logvar + 0.5 * (z - mean) ** 2 * torch.exp(-logvar)).mean()


def survey(n=1024):
    g = torch.Generator().manual_seed(1963)
    return TensorDataset(torch.randn(n, 1024, generator=g), torch.rand(n, generator=g) * 6)


def run():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    options = {"gradient_as_bucket_view": True} if "--fixed" in sys.argv else {}
    with torch.device("cuda"):
        net = ResMLP()
    model = DDP(net, device_ids=[local], **options)
    data = survey()
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=64, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for flux, z in loader:
            optimizer.zero_grad()
            loss = nll(model(flux.cuda()), z.cuda())
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print("epoch", epoch, "nll", loss.item())


run()
