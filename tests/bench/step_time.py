"""Milliseconds of processor time, all threads, of each GPT-2 small step on the simulated device, where no kernel hides what tracing
costs: step_time.py plain|history STEPS"""
import json
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples"))
from train_gpt2 import GPT  # noqa: E402

model = GPT(12, 768, 12, 50304, 1024, False).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
tokens = torch.randint(0, 50304, (12, 1024)).cuda()
if sys.argv[1] == "history":
    torch.cuda.memory._record_memory_history()
times = []
for step in range(int(sys.argv[2])):
    start = time.process_time()
    with torch.autocast("cuda", dtype=torch.float16):
        _, loss = model(tokens, tokens)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step >= 3:
        times.append((time.process_time() - start) * 1e3)
print(json.dumps(times))
