"""Allocates and frees tensors of many sizes at random: allocate.py SEED [STREAMS [LARGEST_MIB [EMPTY_EVERY]]]. If one does not fit, others are freed."""
import random
import sys

import torch

seed, streams, largest, empty = (*map(int, sys.argv[1:]), *(1, 64, 0)[len(sys.argv) - 2:])
rng, held = random.Random(seed), []
queues = [torch.cuda.current_stream()] + [torch.cuda.Stream() for _ in range(streams - 1)]
for i in range(3000):
    if empty and i % empty == empty - 1:
        torch.cuda.empty_cache()
    if held and rng.random() < 0.48:
        held.pop(rng.randrange(len(held)))
        continue
    size = int(2 ** rng.uniform(4, 20 if rng.random() < 0.6 else 20 + (largest - 1).bit_length()))
    with torch.cuda.stream(rng.choice(queues)):
        try:
            held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            if streams > 1 and rng.random() < 0.1:
                held[-1].record_stream(rng.choice(queues))
        except torch.OutOfMemoryError:
            del held[::2]
