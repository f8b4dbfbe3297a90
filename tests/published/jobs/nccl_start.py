"""The first lines of modded-nanogpt's train_gpt.py: a kernel, NCCL's communicator and a barrier. Prints the device's memory in use."""
import os

import torch
import torch.distributed as dist

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.empty(1, device=device, requires_grad=True).backward()
torch.cuda.set_device(device)
dist.init_process_group(backend="nccl", device_id=device)
dist.barrier()
free, total = torch.cuda.mem_get_info()
print("rank %d in use %.1f MiB" % (dist.get_rank(), (total - free) / 2**20), flush=True)
