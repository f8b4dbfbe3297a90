"""What NCCL takes on the device with one rank: its communicator, the first collective, a second group, and what destroying gives back."""
import os
import tempfile

import torch
import torch.distributed as dist

from marks import case, mark

torch.cuda.set_device(0)
torch.empty(1, device="cuda")
mark("context")
store = "file://" + os.path.join(tempfile.mkdtemp(), "store")
options = {"device_id": torch.device("cuda:0")} if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 3) else {}
dist.init_process_group("nccl", init_method=store, rank=0, world_size=1, **options)
mark("init_process_group")
x = torch.ones(1 << 20, device="cuda")
mark("a tensor of 4 MiB")
case("all_reduce", lambda: dist.all_reduce(x))
case("barrier", lambda: dist.barrier())
case("all_gather", lambda: dist.all_gather_into_tensor(torch.empty_like(x), x))
case("reduce_scatter", lambda: dist.reduce_scatter_tensor(torch.empty_like(x), x))
second = dist.new_group([0])
case("second group, all_reduce", lambda: dist.all_reduce(x, group=second))
dist.destroy_process_group()
mark("destroyed")
