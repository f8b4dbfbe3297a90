"""Gives cached memory back, some of it, all of it, or to take it again; prints what PyTorch then says that it holds."""
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
