"""leak.py MIB STEPS: a training loop that keeps MIB more memory with each step."""
import sys

import torch

model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.AdamW(model.parameters())
kept = []
for _ in range(int(sys.argv[2])):
    model(torch.ones(64, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.empty(int(sys.argv[1]) << 20, dtype=torch.uint8, device="cuda"))
