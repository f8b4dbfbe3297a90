"""Follows the gradients of a vision transformer over the training, to plot their directions later.

https://github.com/MultimediaTechLab/YOLO/pull/83
"""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
device = torch.device("cuda")


class Monitor:
    def __init__(self, model):
        self.model, self.history = model, []

    def log(self, step):
        if FIXED:
            entry = {n: p.grad.norm().item() for n, p in self.model.named_parameters()}
        else:
            entry = {n: p.grad.clone() for n, p in self.model.named_parameters() if p.grad is not None}
        self.history.append((step, entry))


model = nn.Sequential(nn.Conv2d(3, 512, 16, 16), nn.Flatten(2), nn.AdaptiveAvgPool1d(64), nn.TransformerEncoder(
    nn.TransformerEncoderLayer(64, 8, 8192, batch_first=True, dropout=0.0), 12, enable_nested_tensor=False), nn.Flatten(), nn.Linear(32768, 400)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
monitor = Monitor(model)
for step in range(10):
    images, labels = torch.randn(8, 3, 224, 224, device=device), torch.randint(0, 400, (8,), device=device)
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    monitor.log(step)
    optimizer.step()
print(len(monitor.history), loss.item())
