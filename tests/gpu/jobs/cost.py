"""What recording can slow down, as the line {"steps_s": {...}, "ns": {...}}: cost.py SECONDS

Training steps a second of GPT-2 small with flash attention (the GPU is the limit) and of a small model of many kernels (the host is the
limit), and ns an event of allocating and freeing a cached block.
"""
import json
import os
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples"))
from train_gpt2 import GPT  # noqa: E402

AT_ONCE = 5  # steps between two waits for the GPU


def trained(layers, width, heads, length, size, seconds):
    """Steps a second, as the median of groups of steps."""
    model = GPT(layers, width, heads, 50304, length, True).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(0, 50304, (size, length)).cuda()

    def timed():
        began = time.perf_counter()
        for _ in range(AT_ONCE):
            with torch.autocast("cuda", dtype=torch.float16):
                _, loss = model(tokens, tokens)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / AT_ONCE

    timed()
    taken, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 3:
        taken.append(timed())
    return 1 / statistics.median(taken)


def pairs(count, size):
    allocate, free = torch._C._cuda_cudaCachingAllocator_raw_alloc, torch._C._cuda_cudaCachingAllocator_raw_delete
    began = time.perf_counter_ns()
    for _ in range(count):
        free(allocate(size, 0))
    return (time.perf_counter_ns() - began) / (2 * count)


def at(depth, size):
    """Under a Python stack of this depth."""
    return at(depth - 1, size) if depth else pairs(1000, size)


def events(depth, size, rounds):
    at(depth, size)
    return statistics.median(at(depth, size) for _ in range(rounds))


seconds = float(sys.argv[1])
torch.empty(1, device="cuda")
steps = {"GPT-2 small": trained(12, 768, 12, 1024, 4, seconds) if seconds >= 2 else 0, "small kernels": trained(12, 128, 4, 64, 1, seconds)}
rounds = 101 if seconds >= 2 else 11
ns = {name: events(depth, size, rounds) for name, depth, size in (("512 bytes, no stack", 5, 512), ("1 MiB, 5 frames", 5, 1 << 20),
                                                                  ("1 MiB, 20 frames", 20, 1 << 20))}
print(json.dumps({"steps_s": {k: v for k, v in steps.items() if v}, "ns": ns}), flush=True)
