"""Runs a script and writes what PyTorch's own history of its caching allocator says, as tests/unit/allocator/allocator_replay.c reads it:
with_history.py OUT SCRIPT [ARGUMENT...]. The first line holds the version and the bytes that the device had free."""
import runpy
import sys

import torch

out, sys.argv = sys.argv[1], sys.argv[2:]
torch.empty((), device="cpu")
torch.cuda.init()
free = torch.cuda.mem_get_info()[0]
torch.cuda.memory._record_memory_history(context=None, stacks="python", max_entries=10**9)
emptied = []


def history():
    return torch.cuda.memory._snapshot()["device_traces"][0]


def empty_cache(real=torch.cuda.empty_cache):
    emptied.append(len(history()))
    real()


torch.cuda.empty_cache = torch.cuda.memory.empty_cache = empty_cache
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    streams = {0: 0}
    with open(out, "w") as f:
        print(torch.__version__, free, file=f)
        emptying = 0
        for i, e in enumerate(history()):
            emptying += emptied.count(i)
            if emptying and e["action"] not in ("free_completed", "snapshot"):  # what events held back comes first
                emptying = f.write("e\n" * emptying) * 0
            action, stream = e["action"], streams.setdefault(e["stream"], len(streams))
            if action in ("segment_alloc", "segment_map"):
                print("s", e["addr"], e["size"], file=f)
            elif action in ("segment_free", "segment_unmap"):
                print("u", e["addr"], e["size"], file=f)
            elif action == "alloc":
                print("a", e["addr"], e["size"], stream, file=f)
            elif action == "free_completed":
                print("f", e["addr"], file=f)
            elif action == "oom":
                print("o", e["size"], stream, file=f)
