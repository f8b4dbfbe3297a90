"""Steps of 20 ms on an H100, each with an all_reduce of 8 MiB for which nobody waits: prints the most MiB that such tensors had at once."""
import time

import torch
import torch.distributed as dist

MiB = 1 << 20
dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0))
one, two = (torch.empty(16_750_000_000, dtype=torch.uint8, device="cuda") for _ in range(2))  # a copy takes 10 ms at 3350 GB/s
dist.all_reduce(torch.zeros(1, device="cuda"))
torch.cuda.synchronize()
time.sleep(0.3)  # the watchdog has polled
before = torch.cuda.memory_allocated()
for _ in range(40):
    two.copy_(one)
    two.copy_(one)
    dist.all_reduce(torch.empty(8 * MiB, dtype=torch.uint8, device="cuda"), async_op=True).get_future().wait()
    torch.cuda.synchronize()
print((torch.cuda.max_memory_allocated() - before) // MiB)
