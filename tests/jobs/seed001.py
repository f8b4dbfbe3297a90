"""Document 001's GPT-2 small run: batch 12, gradients of the first step kept, so that the second step starts from the steady state.

    seed001.py [--drop-logits]     prints the parameters and the peak; then, with --drop-logits, what the second step started with, and how
                                   much of it is gaps: what blocks are larger than the tensors in them

The document's count of activations has one 16-bit tensor of the logits' size, cross entropy's own result: there the model's output was not
held during the backward pass. --drop-logits lets go of it, and scales the loss as that loop did.
"""
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples"))
from train_gpt2 import GPT  # noqa: E402

model = GPT(12, 768, 12, 50304, 1024, False).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
LETS_GO = "--drop-logits" in sys.argv
scaler = torch.cuda.amp.GradScaler() if LETS_GO else None
for step in range(3):
    tokens = torch.randint(0, 50304, (12, 1024)).cuda()
    targets = torch.randint(0, 50304, (12, 1024)).cuda()
    if step == 1:
        steady = torch.cuda.memory_allocated()
        blocks = [block for segment in torch.cuda.memory_snapshot() for block in segment["blocks"] if block["state"].startswith("active")]
        gaps = sum(block["size"] - block.get("requested_size", block["size"]) for block in blocks)
        torch.cuda.reset_peak_memory_stats()
    with torch.autocast("cuda", dtype=torch.float16):
        logits, loss = model(tokens, targets)
    if LETS_GO:
        del logits
    if scaler:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
    if step > 0:
        optimizer.zero_grad(set_to_none=True)
print(sum(p.numel() for p in model.parameters()), torch.cuda.max_memory_allocated(), *[steady, gaps] * LETS_GO)
