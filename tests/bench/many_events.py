"""Makes EVENTS allocator events with LIVE blocks of BYTES live: many_events.py EVENTS [LIVE [BYTES]]. Without LIVE, 300 blocks stay and one
comes and goes; with it, each new block takes the place of one picked at random, the worst that an index of live blocks can meet."""
import random
import sys

import torch

empty, events = torch.empty, int(sys.argv[1])
if len(sys.argv) == 2:
    kept = [empty(1000 * (i + 1), device="cuda") for i in range(300)]
    for _ in range(events // 2 - 150):
        empty(50000, device="cuda")
else:
    live, size = int(sys.argv[2]), int((sys.argv + [1 << 18])[3]) // 4
    kept = [empty(size, device="cuda") for _ in range(live)]
    random.seed(1)
    for i in random.choices(range(live), k=(events - live) // 2):
        kept[i] = None
        kept[i] = empty(size, device="cuda")
print(torch.cuda.memory_stats()["allocation.all.allocated"] + torch.cuda.memory_stats()["allocation.all.freed"])
