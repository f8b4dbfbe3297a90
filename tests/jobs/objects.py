"""Object collectives as they come: sizes and bytes are put together by small kernels on the device. Each rank prints what it got.

objects.py [BACKEND]"""
import json
import os
import sys

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group(*sys.argv[1:] or ["nccl"])
world = dist.get_world_size()

everybody = [None] * world
dist.all_gather_object(everybody, {"rank": rank, "text": "x" * (10 + 100 * rank)})
said = [rank, "y" * rank, {"large": list(range(30000 * rank))}]  # more than NCCL's small messages
dist.broadcast_object_list(said, src=1)
gathered = [None] * world if rank == 0 else None
dist.gather_object(("from", rank), gathered, dst=0)
own = [None]
dist.scatter_object_list(own, [("to", i) for i in range(world)] if rank == 0 else None, src=0)
total = torch.tensor([rank + 1.0], device="cuda")
dist.all_reduce(total)
print(json.dumps({"rank": rank, "lengths": [[e["rank"], len(e["text"])] for e in everybody], "said": said[:2] + [len(said[2]["large"])], "gathered": gathered, "own": own[0],
                  "total": total.item(), "finite": bool(torch.isfinite(torch.empty(100, device="cuda").sum()))}), flush=True)
dist.barrier()
dist.destroy_process_group()
