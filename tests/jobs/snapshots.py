"""A job that maps and unmaps, for the tests of PyTorch's own snapshots: snapshots.py SNAPSHOT MAX_ENTRIES [host]. The peak is at the beginning, so that
a short history has lost it. Prints PyTorch's counters."""
import json
import sys

import torch

MIB = 1 << 20
torch.cuda.memory._record_memory_history(stacks="python", max_entries=int(sys.argv[2]), **{"record_pinned_host_memory": True} if "host" in sys.argv else {})


def tensor(mebibytes):
    return torch.empty(mebibytes * MIB, dtype=torch.uint8, device="cuda")


def counters():
    torch.cuda.memory._dump_snapshot(sys.argv[1])
    print(json.dumps({"peak": torch.cuda.max_memory_allocated(), "live": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved(),
                      "reserved_peak": torch.cuda.max_memory_reserved()}), flush=True)


def main():
    large, kept = tensor(256), tensor(40)
    del large
    small = [tensor(30) for _ in range(8)]
    for i in 1, 2, 3, 5:
        small[i] = None
    torch.cuda.empty_cache()      # unmaps a part of what was mapped at once
    small += [tensor(30), tensor(30)]
    for _ in range(30):
        tensor(4)
    small[-2] = None
    torch.cuda.empty_cache()
    pinned = [torch.empty(n, dtype=torch.uint8).pin_memory() for n in (3 * MIB, 5000)]
    counters()
    return kept, small, pinned


held = main()
