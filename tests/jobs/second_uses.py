"""Jobs whose tensors are not what their place suggests: second_uses.py penalty | resumed | predictions | reentrant | built

penalty: the gradients of a first backward pass, with create_graph=True, are part of the loss.
resumed: the optimizer's states come from a checkpoint that was read to the GPU.
predictions: an evaluation keeps its outputs on the GPU; in the last step, the peak is behind it.
reentrant: a reentrant checkpoint runs autograd's engine under its own Python frames; the peak is in the only backward pass.
built: layers that are built on the GPU, whose blocks the allocator rounds up, and not those of their gradients; the peak is in the second backward pass, before any step.
"""
import io
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

kind = sys.argv[1]
device = "cuda"
width = {"built": 3200, "reentrant": 2048}.get(kind, 1024)
batch = 8192 if kind == "built" else 4096
outputs = 4096 if kind == "predictions" else 512


class Block(nn.Module):
    """A layer; built: its weight is a parameter of its own, as in transformers' Conv1D"""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, width))

    def run(self, x):
        return torch.tanh(x @ self.weight)

    def forward(self, x):
        return checkpoint(self.run, x, use_reentrant=True) if kind == "reentrant" else self.run(x)


def network():
    layers = [nn.Linear(16, width), nn.Tanh()]
    for _ in range(4):
        layers += [Block()] if kind in ("built", "reentrant") else [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def saved_states(model):
    """A checkpoint of a run on the CPU"""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    return file


def penalty(model, x):
    x.requires_grad_(True)
    y = model(x)
    (slope,) = torch.autograd.grad(y.pow(2).sum(), x, create_graph=True)
    return y.mean() + slope.pow(2).mean()


file = saved_states(network()) if kind == "resumed" else None
with torch.device(device if kind == "built" else "cpu"):
    model = network()
model = model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4) if kind == "built" else torch.optim.AdamW(model.parameters(), lr=1e-4)
if file:
    optimizer.load_state_dict(torch.load(file, map_location=device))
for step in range({"built": 2, "reentrant": 1}.get(kind, 3)):
    x = torch.zeros(batch, 16, device=device)
    loss = penalty(model, x) if kind == "penalty" else model(x).mean()
    loss.backward()
    del loss
    if kind == "built" and step == 0:
        continue
    optimizer.step()
    if kind == "reentrant":
        break
    optimizer.zero_grad()
    if kind == "predictions":
        kept = []
        with torch.no_grad():
            for _ in range(6):
                x = torch.zeros(batch, 16, device=device)
                kept.append(model(x).float().softmax(-1))
        if step < 2:
            del kept
