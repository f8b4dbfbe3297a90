"""unused_groups.py GROUPS: process groups that no collective uses, then a tensor larger than the card. Prints the bytes of device memory in use before it."""
import os
import sys

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
groups = [dist.new_group() for _ in range(int(sys.argv[1]))]
dist.all_reduce(torch.zeros(1, device="cuda"))
free, total = torch.cuda.mem_get_info()
print(f"used {total - free}\n", end="", flush=True)
torch.empty(total, dtype=torch.uint8, device="cuda")
