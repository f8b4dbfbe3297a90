"""Runs a training script and writes PyTorch's own counters: with_truth.py OUT SCRIPT [ARG...]

OUT.RANK gets the allocator's peaks, its counts of events and, as memory_snapshot() has them, the blocks in use at the end. The process
then leaves by os._exit, so that the trace ends at the very state that was written down.
"""
import json
import os
import runpy
import sys

import torch


def truth():
    stats, blocks = [], []
    backend = torch.cuda.memory.get_allocator_backend()
    for device in range(torch.cuda.device_count()):
        s = torch.cuda.memory_stats(device)
        stats.append({"allocated": torch.cuda.max_memory_allocated(device), "reserved": torch.cuda.max_memory_reserved(device),
                      "allocs": s.get("allocation.all.allocated", 0), "frees": s.get("allocation.all.freed", 0),
                      "ooms": s.get("num_ooms", 0)})
    if backend == "native":
        for segment in torch.cuda.memory_snapshot():
            address = segment["address"]
            for block in segment["blocks"]:
                if block["state"] == "active_allocated":
                    blocks.append([segment["device"], address, block["size"]])
                address += block["size"]
    return {"backend": backend, "devices": stats, "blocks": blocks}


if __name__ == "__main__":
    out, script = sys.argv[1:3]
    sys.argv = sys.argv[2:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    kept = runpy.run_path(script, run_name="__main__")
    with open(f"{out}.{os.environ.get('RANK', 0)}", "w") as f:
        json.dump(truth(), f)
    os._exit(0)
