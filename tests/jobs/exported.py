"""A job for the tests of exports: exported.py SNAPSHOT [pinned]. Trains a little, uses pinned memory, runs out of memory once, writes PyTorch's own
snapshot and prints what PyTorch counted. Under a launcher it trains with DDP. "pinned": the inputs are copied from pinned memory, of which some is
given back to the driver."""
import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

torch.cuda.memory._record_memory_history(stacks="python")
rank = int(os.environ.get("RANK", -1))


def inputs_of(step):
    if "pinned" not in sys.argv:
        return torch.randn(512, 1024, device="cuda")
    if step == 2:
        torch.cuda.synchronize()
        torch._C._host_emptyCache()
    return torch.randn(512 * (1 + step), 1024).pin_memory()[:512].to("cuda", non_blocking=True)


def job():
    torch.cuda.set_device(max(rank, 0))
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4))).cuda()
    if rank >= 0:
        dist.init_process_group("nccl")
        model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters())
    pinned = torch.empty(4 << 20).pin_memory()
    for step in range(3):
        inputs = inputs_of(step)
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    try:
        torch.empty(1 << 40, device="cuda")
    except torch.OutOfMemoryError:
        torch.cuda.memory._dump_snapshot(sys.argv[1] if rank < 0 else "%s%d" % (sys.argv[1], rank))
    stats, host = torch.cuda.memory_stats(), torch.cuda.host_memory_stats()
    print(json.dumps({"rank": rank, "peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(),
                      "blocks": stats["allocation.all.allocated"], "bytes": stats["allocated_bytes.all.allocated"],
                      "pinned": pinned.nbytes, "pinned_peak": host["allocated_bytes.peak"], "pinned_now": host["allocated_bytes.current"]}), flush=True)
    if rank >= 0:
        dist.destroy_process_group()


job()
