"""A script that runs out of memory, unmodified: dying_snapshot.py SNAPSHOT SCRIPT [ARGUMENTS]. PyTorch's own snapshot is written and its counters are printed
when it does; the failure then ends the process, as it would have."""
import json
import os
import runpy
import sys

import torch

path, sys.argv = sys.argv[1] + os.environ.get("RANK", ""), sys.argv[2:]
torch.cuda.memory._record_memory_history(stacks="python")
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except torch.OutOfMemoryError:
    torch.cuda.memory._dump_snapshot(path)
    stats = torch.cuda.memory_stats()
    print(json.dumps({"rank": int(os.environ.get("RANK", -1)), "peak": stats["allocated_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"],
                      "blocks": stats["allocation.all.allocated"], "bytes": stats["allocated_bytes.all.allocated"],
                      "pinned_peak": torch.cuda.host_memory_stats()["allocated_bytes.peak"]}), flush=True)
    raise
