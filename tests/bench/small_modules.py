"""Host time of a forward pass of many small modules, which hooks of each node cost most: microseconds a module, the least of 15 rounds.
Run it with the preload and without, or with MEMTRACE_NODES=0."""
import time

import torch
from torch import nn

MODULES, CALLS, ROUNDS = 16, 60, 15

model = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU()) for _ in range(MODULES)]).cuda()
block = torch.zeros(1 << 20, device="cuda")  # the recording begins
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 64, device="cuda")
least = float("inf")
for _ in range(ROUNDS + 1):  # the first one warms up
    start = time.perf_counter()
    for _ in range(CALLS):
        model(x)
    least = min(least, (time.perf_counter() - start) / CALLS / (3 * MODULES) * 1e6)
print("%.2f" % least)
