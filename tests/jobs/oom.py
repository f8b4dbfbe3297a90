"""Runs out of memory: oom.py caught|fatal|os_exit. At the error it prints PyTorch's own message and counters as JSON."""
import json
import os
import sys

import torch

MiB = 1 << 20
kept = [torch.empty(300 * MiB, dtype=torch.uint8, device="cuda") for _ in range(10)]
hole = torch.empty(96 * MiB, dtype=torch.uint8, device="cuda")
del hole
try:
    while True:
        kept.append(torch.empty(512 * MiB, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as e:
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    print(json.dumps({"message": str(e), "allocated": stats["allocated_bytes.all.current"], "reserved": stats["reserved_bytes.all.current"],
                      "ooms": stats["num_ooms"], "free": free, "total": total, "tried": 512 * MiB}), flush=True)
    if sys.argv[1] == "fatal":
        raise
    if sys.argv[1] == "os_exit":
        os._exit(3)
del kept[5:]
for _ in range(2000):
    torch.empty(10 * MiB, dtype=torch.uint8, device="cuda")
