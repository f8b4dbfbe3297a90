"""Ranks whose decisions depend on broadcast integers: flags and sizes, in NCCL's groups and in Gloo's. Eight ranks, groups of four."""
import os

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
groups = [dist.new_group(list(range(i, i + 4))) for i in (0, 4)]
host = dist.new_group(list(range(8)), backend="gloo")

steps = torch.tensor([5, 7] if rank == 0 else [0, 0], device="cuda")
dist.broadcast(steps, 0)
sizes = []
for step in range(int(steps[0])):
    first = rank // 4 * 4
    size = torch.full((), 100 + step if rank == first else 1 << 62, dtype=torch.int64, device="cuda")  # others: as new memory may be
    dist.broadcast(size, first, group=groups[rank // 4])
    sizes.append(int(size))
    torch.empty(int(size) << 10, device="cuda")
last = torch.tensor([rank == 7])
dist.broadcast(last, 7, group=host)
print("rank", rank, steps.tolist(), sizes, last.tolist(), flush=True)
dist.destroy_process_group()
