"""A script that runs out of memory, unmodified: dying_snapshot.py SNAPSHOT SCRIPT [ARGUMENTS]. PyTorch's own snapshot and counters are written when it does; the
failure then ends the process, as it would have."""
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
    with open(path + ".json", "w", encoding="utf-8") as f:
        json.dump({"peak": stats["allocated_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"]}, f)
    raise
