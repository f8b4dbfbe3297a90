"""PyTorch's memory snapshot by any version from 2.0 on: snapshots_of.py FILE PROTOCOL. Prints PyTorch's counter of the peak."""
import json
import pickle
import sys

import torch

record = torch.cuda.memory._record_memory_history
if torch.__version__.startswith("2.0"):
    record(True, trace_alloc_max_entries=100000, trace_alloc_record_context=True)
else:
    record(max_entries=100000, stacks="python") if not torch.__version__.startswith("2.1") else record(max_entries=100000)


def layers():
    return [torch.empty(1000 * (i + 1), device="cuda") for i in range(20)]


kept = layers()
held = torch.empty(3 << 20, device="cuda")
del held, kept[::2]
kept += layers()
with open(sys.argv[1], "wb") as f:
    pickle.dump(torch.cuda.memory._snapshot(), f, int(sys.argv[2]))
print(json.dumps({"peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
