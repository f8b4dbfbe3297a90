"""Returns cached memory, some of it or all of it, or allocates it again; prints PyTorch's reserved bytes each time."""
import json
import sys

import torch

MiB = 1 << 20


def block(mib):
    return torch.empty(mib * MiB, dtype=torch.uint8, device="cuda")


kept = [block(3), block(50)]
gone = [block(100), block(30), block(7)]
said = []
if "some" in sys.argv:
    del gone[1]
    torch.cuda.empty_cache()
if "all" in sys.argv:
    gone.clear()
    torch.cuda.empty_cache()
if "again" in sys.argv:
    gone.append(block(100))
    gone.clear()
    torch.cuda.empty_cache()
print(json.dumps({"reserved": torch.cuda.memory_reserved(), "max_reserved": torch.cuda.max_memory_reserved()}))
