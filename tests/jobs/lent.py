"""Uses a block of 64 MiB on another stream, frees it, and allocates a second one: prints the reserved MiB, again after the host waited and allocated a third."""
import torch

MiB = 1 << 20
side = torch.cuda.Stream()
block = torch.zeros(64 * MiB, dtype=torch.uint8, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    block.add_(1)
block.record_stream(side)
del block
second = torch.zeros(64 * MiB, dtype=torch.uint8, device="cuda")
before = torch.cuda.memory_reserved() // MiB
torch.cuda.synchronize()
third = torch.zeros(64 * MiB, dtype=torch.uint8, device="cuda")
print(before, torch.cuda.memory_reserved() // MiB)
