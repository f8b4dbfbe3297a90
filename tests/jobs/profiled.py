"""Three steps under torch.profiler with profile_memory, and an allocation that fails: profiled.py FILE [stacks]. Prints PyTorch's own counters."""
import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 1024)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
torch.cuda.reset_peak_memory_stats()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True, with_stack="stacks" in sys.argv,
             schedule=torch.profiler.schedule(wait=0, warmup=0, active=9)) as profiler:
    for step in range(3):
        model(torch.randn(512, 1024, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step < 2:
            profiler.step()
    try:
        torch.empty(1 << 42, device="cuda")
    except RuntimeError:
        pass
profiler.export_chrome_trace(sys.argv[1])
print(json.dumps({"peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(),
                  "parameters": sum(p.numel() * 4 for p in model.parameters())}))
