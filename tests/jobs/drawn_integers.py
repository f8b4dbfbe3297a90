"""Prints integers that PyTorch draws at random on the device, as parts of their range, and how many rows a drawn mask chooses."""
import json

import torch

RANGE = 2 ** 27  # below it all versions of PyTorch make an integer of one 32-bit word
torch.manual_seed(0)
drawn = torch.randint(RANGE, (10,), device="cuda").tolist()
torch.manual_seed(0)
spread = torch.zeros(10, 2, dtype=torch.int64, device="cuda")
spread[:, 0].random_(100, 100 + RANGE)
torch.manual_seed(0)
mask = torch.randint(2, (64,), dtype=torch.bool, device="cuda")
torch.manual_seed(0)
wide = torch.randint(2 ** 62, (2,), device="cuda").tolist()
print(json.dumps({"parts": [x / RANGE for x in drawn], "spread": [(x - 100) / RANGE for x in spread[:, 0].tolist()], "between": spread[:, 1].tolist(),
                  "chosen": torch.arange(64, device="cuda")[mask].tolist(), "mask": mask.tolist(), "wide": [x / 2 ** 62 for x in wide]}))
