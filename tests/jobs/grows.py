"""Steps that keep 4 MiB each; then prints PyTorch's counters and waits for the file DIRECTORY/go. grows.py STEPS DIRECTORY"""
import json
import os
import sys
import time

import torch

model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
kept = []
for _ in range(int(sys.argv[1])):
    loss = model(torch.randn(64, 512, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.empty(4 << 20, dtype=torch.uint8, device="cuda"))
print(json.dumps({"allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved(),
                  "peak": torch.cuda.max_memory_allocated()}), flush=True)
while not os.path.exists(os.path.join(sys.argv[2], "go")):
    time.sleep(0.1)
