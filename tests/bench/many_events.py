"""Makes EVENTS allocator events with some hundred live blocks: many_events.py EVENTS"""
import sys

import torch

kept = [torch.empty(1000 * (i + 1), device="cuda") for i in range(300)]
pairs = int(sys.argv[1]) // 2 - 150
empty = torch.empty
for _ in range(pairs):
    empty(50000, device="cuda")
print(torch.cuda.memory_stats()["allocation.all.allocated"] + torch.cuda.memory_stats()["allocation.all.freed"])
