"""Ranks send each other objects, sizes and shapes, with one call each. Each rank prints its values at the end."""
import json
import os

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")


def number(value):
    return torch.tensor([value], device="cuda")


run = [{"name": "x" * 50, "layers": 3}] if rank == 0 else [None]
dist.broadcast_object_list(run, src=0)
steps = number(77 if rank == 0 else 1)
dist.broadcast(steps, 0)
own = [None]
dist.scatter_object_list(own, [["for", i] for i in range(world)] if rank == 0 else None, src=0)

before, after = rank - 1, (rank + 1) % world  # a chain: each says its number, and what it was told
told, shape, back = [None], number(0), number(0)
if rank:
    dist.recv_object_list(told, src=before)
    dist.recv(shape, before)
if after:
    dist.send_object_list([[rank, told[0]]], dst=after)
    dist.send(number(100 + rank), after)
pairs = [dist.P2POp(dist.isend, number(200 + rank), before), dist.P2POp(dist.irecv, torch.empty(4, device="cuda"), before)] * (before >= 0)
pairs += [dist.P2POp(dist.irecv, back, after), dist.P2POp(dist.isend, torch.empty(4, device="cuda"), after)] * (after > 0)
for work in dist.batch_isend_irecv(pairs):
    work.wait()
print(json.dumps({"rank": rank, "run": run, "steps": int(steps), "own": own[0], "told": told[0], "shape": int(shape), "back": int(back)}), flush=True)
dist.destroy_process_group()
