"""Another script as a whole under torch.profiler, with Python stacks or without, or with PyTorch's memory snapshot:
profiled_script.py FILE stacks|no|snapshot SCRIPT ARGUMENTS... Prints PyTorch's own counter."""
import json
import runpy
import sys

import torch
from torch.profiler import ProfilerActivity, profile

path, how, script = sys.argv[1:4]
sys.argv = sys.argv[3:]
if how == "snapshot":
    torch.cuda.memory._record_memory_history(stacks="python")
    kept = runpy.run_path(script, run_name="__main__")
    torch.cuda.memory._dump_snapshot(path)
else:
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True, with_stack=how == "stacks") as profiler:
        runpy.run_path(script, run_name="__main__")
    profiler.export_chrome_trace(path)
print(json.dumps({"peak": torch.cuda.max_memory_allocated()}))
