"""The host reads a sum of 2^28 + 1 integers, more than the simulated device computes; with "small", of 2^20."""
import sys

import torch

counts = torch.ones(2 ** 20 if "small" in sys.argv else 2 ** 28 + 1, dtype=torch.int32, device="cuda")
print("sum", counts.sum().item(), "mean", torch.rand(4096, device="cuda").mean().item())
