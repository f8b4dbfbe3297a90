"""Trains until it is killed, and prints the allocator's counters after each step: allocs, frees, allocated, reserved."""
import sys

import torch

model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10**9
for step in range(steps):
    model(torch.randn(64, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    s = torch.cuda.memory_stats()
    sys.stdout.write("%d %d %d %d\n" % tuple(s[k] for k in ("allocation.all.allocated", "allocation.all.freed",
                                                           "allocated_bytes.all.current", "reserved_bytes.all.current")))
    sys.stdout.flush()
