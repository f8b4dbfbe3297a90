"""groups.py [[RANK...]...]: the first rank of each group broadcasts a number of its own, which the others receive; objects by keyword arguments."""
import json
import os
import sys

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
for ranks in json.loads(sys.argv[1]):
    group = dist.new_group(ranks)
    if rank in ranks:
        number = torch.tensor([100 + ranks[0] if rank == ranks[0] else 7], device="cuda")
        dist.broadcast(number, ranks[0], group=group)
        print(f"rank {rank} has {int(number)}\n", end="", flush=True)
objects, said = [None] * dist.get_world_size(), [rank]
dist.all_gather_object(object_list=objects, obj=rank)
dist.broadcast_object_list(object_list=said, src=0)
print(f"rank {rank} objects {objects} {said}\n", end="", flush=True)
dist.destroy_process_group()
