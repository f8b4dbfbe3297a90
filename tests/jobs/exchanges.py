"""All kinds of exchange between ranks: each rank prints the data that it received, and its peaks."""
import datetime
import json
import os

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
got = {}


def value(x):
    return torch.tensor([float(x)], device="cuda")


def summed(x, group):
    y = value(x)
    dist.all_reduce(y, group=group)
    return y.item()


halves = [dist.new_group(list(range(world // 2))), dist.new_group(list(range(world // 2, world)))]
stripes = [dist.new_group(list(range(i, world, 2))) for i in range(2)]
got["half"], got["stripe"] = summed(1 + rank, halves[rank // (world // 2)]), summed(1 + rank, stripes[rank % 2])

# objects: of all, and of the ranks of one parity
everybody = [None] * world
dist.all_gather_object(everybody, ["x" * rank, rank])
got["everybody"] = [r for _, r in everybody]
said = [["from", rank]]
dist.broadcast_object_list(said, src=2)
got["said"] = said[0]
parity = [None] * (world // 2)
dist.all_gather_object(parity, rank, group=stripes[rank % 2])
got["parity"] = parity
own = [None]
dist.scatter_object_list(own, [["to", i] for i in range(world)] if rank == 0 else None, src=0)
got["own"] = own[0]

# a group on the CPU
gloo, named = dist.new_group(backend="gloo"), [None] * world
dist.all_gather_object(named, rank, group=gloo)
dist.barrier(group=gloo)
dist.monitored_barrier(group=gloo, timeout=datetime.timedelta(seconds=200))
got["gloo"] = named

# messages: there and back between ranks 0 and 2
if rank in (0, 2):
    ring, other = value(0), 2 - rank
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, value(7 + rank), other), dist.P2POp(dist.irecv, ring, other)]):
        work.wait()
    got["ring"] = ring.item()
    alone = value(50 - 25 * rank)
    if rank == 0:
        dist.send(alone, dst=2)
    else:
        dist.recv(alone, src=0)
    got["alone"] = alone.item()
    dist.barrier(group=stripes[0])

parts = list(torch.zeros(world, device="cuda").split(1))
dist.all_gather(parts, value(10 * rank))
got["parts"] = [p.item() for p in parts]
scattered = value(0)
dist.reduce_scatter(scattered, [value(rank + i) for i in range(world)])
got["scattered"] = scattered.item()
from_all = torch.zeros(world, device="cuda")
dist.all_to_all_single(from_all, torch.tensor([100.0 * rank + i for i in range(world)], device="cuda"))
got["from_all"] = from_all.tolist()
dist.barrier()
print(json.dumps({"rank": rank, "got": got, "max_memory_allocated": torch.cuda.max_memory_allocated(),
                  "max_memory_reserved": torch.cuda.max_memory_reserved()}), flush=True)
dist.destroy_process_group()
