"""20 linear layers under DistributedDataParallel on gloo, with Adam or with ZeroRedundancyOptimizer; the peaks of rank 0.

"old" gives what PyTorch 1.8 had: Adam's loop, mse_loss, parameters that are not sorted by size before they are shared out, and cuBLAS's
workspaces outside of the allocator (CUBLAS_WORKSPACE_CONFIG=:0:0).
As in the recipe, nothing waits for the GPU before a peak is read: that would return the buffers of gloo's first broadcast.
"""
import os
import sys

import old_torch
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from said import say
from torch.distributed.optim import ZeroRedundancyOptimizer, zero_redundancy_optimizer
from torch.nn.parallel import DistributedDataParallel


def example(rank, sharded, old):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29511" if sharded else "29512")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    said = (lambda key: say(key, torch.cuda.max_memory_allocated())) if rank == 0 else lambda key: None
    name = "ZeroRedundancyOptimizer" if sharded else "Adam"
    model = nn.Sequential(*[nn.Linear(2000, 2000).to(rank) for _ in range(20)])
    said(name + ": local model")
    wrapped = DistributedDataParallel(model, device_ids=[rank])
    said(name + ": DDP")
    loop = {"foreach": False} if old else {}
    if old:
        zero_redundancy_optimizer.sorted = lambda parameters, **_: parameters
    if sharded:
        optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), optimizer_class=torch.optim.Adam, lr=0.01, **loop)
    else:
        optimizer = torch.optim.Adam(wrapped.parameters(), lr=0.01, **loop)
    outputs, labels = wrapped(torch.randn(20, 2000).to(rank)), torch.randn(20, 2000).to(rank)
    (old_torch.mse_loss if old else nn.MSELoss())(outputs, labels).backward()
    said(name + ": before step()")
    optimizer.step()
    said(name + ": after step()")
    dist.barrier()
    os._exit(0)  # gloo's end can wait for ever


if __name__ == "__main__":
    for sharded in True, False:
        mp.spawn(example, args=(sharded, sys.argv[1] == "old"), nprocs=2, join=True)
