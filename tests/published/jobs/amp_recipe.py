"""PyTorch's recipe of automatic mixed precision: three linear layers of 4096, default or mixed precision, each after the other.

Gradients are set to zero and kept, as before PyTorch 2.0.
"""
import gc

import old_torch
import torch
from said import forget_peaks, peak

BATCHES, EPOCHS, WIDTH, BATCH = 4, 2, 4096, 512
data = [torch.randn(BATCH, WIDTH, device="cuda") for _ in range(50)]
targets = [torch.randn(BATCH, WIDTH, device="cuda") for _ in range(50)]
loss_fn = old_torch.mse_loss
kept = {}


def layers():
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(),
                               torch.nn.Linear(WIDTH, WIDTH)).cuda()


for name, mixed in (("default", False), ("mixed", True)):
    kept["net"] = layers()
    kept["optimizer"] = torch.optim.SGD(kept["net"].parameters(), lr=0.001, foreach=False)
    scaler = torch.cuda.amp.GradScaler(enabled=mixed)
    gc.collect()
    forget_peaks()
    for _ in range(EPOCHS):
        for kept["input"], kept["target"] in zip(data[:BATCHES], targets):
            with torch.autocast("cuda", dtype=torch.float16, enabled=mixed):
                kept["output"] = kept["net"](kept["input"])
                kept["loss"] = loss_fn(kept["output"], kept["target"])
            scaler.scale(kept["loss"]).backward()
            scaler.step(kept["optimizer"])
            scaler.update()
            kept["optimizer"].zero_grad(set_to_none=False)
    peak(name)
