"""Jobs whose tensors are not what their place suggests: second_uses.py penalty | resumed | predictions

penalty: the gradients of a first backward pass, with create_graph=True, are part of the loss.
resumed: the optimizer's states come from a checkpoint that was read to the GPU.
predictions: an evaluation keeps its outputs on the GPU; in the last step, the peak is behind it.
"""
import io
import sys

import torch
from torch import nn

kind = sys.argv[1]
device = "cuda"
width, batch, outputs = 1024, 4096, 4096 if kind == "predictions" else 512


def network():
    layers = [nn.Linear(16, width), nn.Tanh()]
    for _ in range(4):
        layers += [nn.Linear(width, width), nn.Tanh()]
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
model = network().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
if file:
    optimizer.load_state_dict(torch.load(file, map_location=device))
for step in range(3):
    x = torch.zeros(batch, 16, device=device)
    loss = penalty(model, x) if kind == "penalty" else model(x).mean()
    loss.backward()
    del loss
    optimizer.step()
    optimizer.zero_grad()
    if kind == "predictions":
        kept = []
        with torch.no_grad():
            for _ in range(6):
                x = torch.zeros(batch, 16, device=device)
                kept.append(model(x).float().softmax(-1))
        if step < 2:
            del kept
