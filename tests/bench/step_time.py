"""One GPT-2 small step on the simulated device for each line on standard input; answers with the processor time it took, all threads, in
ms. No kernel hides there what tracing costs. step_time.py plain|history"""
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
for _ in sys.stdin:
    start = time.process_time()
    with torch.autocast("cuda", dtype=torch.float16):
        _, loss = model(tokens, tokens)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print("%.4f" % ((time.process_time() - start) * 1e3), flush=True)
