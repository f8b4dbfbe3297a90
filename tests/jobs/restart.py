"""DDP under torchrun --max-restarts: rank 1 of the first attempt asks for more than the device has, the second attempt ends well."""
import os

import torch
import torch.distributed

rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1024).cuda())
for step in range(3):
    if (attempt, rank, step) == (0, 1, 1):
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    model(torch.randn(64, 1024, device="cuda")).sum().backward()
torch.cuda.synchronize()
print("done %d %d" % (attempt, rank), flush=True)
torch.distributed.destroy_process_group()
