"""Prints the order of randn()'s numbers by size, from above and from below, and what is chosen of numbers that another kernel changed since."""
import json

import torch

torch.manual_seed(42)
order = torch.topk(torch.randn(1, 10, device="cuda"), 10).indices.tolist()[0]
torch.manual_seed(42)
least = torch.topk(torch.randn(1, 10, device="cuda"), 2, largest=False).indices.tolist()[0]
torch.manual_seed(42)
changed = torch.topk(torch.randn(1, 10, device="cuda").abs(), 3).indices.tolist()[0]
print(json.dumps({"order": order, "least": least, "changed": changed}))
