"""A block of 64 MiB lent to another stream and freed, and another of the same size: prints what PyTorch holds then, and after the host waited and asked a third time."""
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
