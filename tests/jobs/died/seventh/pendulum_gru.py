"""Learns the motion of a chaotic double pendulum from one endless recording with a stack of GRU cells; the state is carried from window to window."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
WINDOW, BATCH, HIDDEN, LAYERS = 40, 256, 384, 2


class CellStack(nn.Module):
    def __init__(self, inputs, hidden, layers):
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(inputs if k == 0 else hidden, hidden) for k in range(layers)])
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, inputs)

    def start(self, batch, device):
        return [torch.zeros(batch, cell.hidden_size, device=device) for cell in self.cells]

    def forward(self, x, state):
        outputs = []
        for t in range(x.size(1)):
            h, fresh = x[:, t], []
            for cell, s in zip(self.cells, state):
                h = cell(h, s)
                fresh.append(h)
            state = fresh
            outputs.append(self.out(self.norm(h)))
        return torch.stack(outputs, 1), state


def recording(length):
    t = torch.arange(length + 1, dtype=torch.float32) * 0.01
    angles = torch.stack([torch.sin(t), torch.cos(1.7 * t), torch.sin(2.3 * t + 1), torch.cos(0.4 * t)], -1)
    return angles.expand(BATCH, -1, -1)


def windows(data):
    for start in range(0, data.size(1) - 1, WINDOW):
        piece = data[:, start:start + WINDOW + 1]
        yield piece[:, :-1].cuda(), piece[:, 1:].cuda()


def train(model, optimizer, data):
    state = model.start(BATCH, "cuda")
    for step, (x, y) in enumerate(windows(data)):
        if FIXED:
            state = [s.detach() for s in state]
        guess, state = model(x, state)
        loss = nn.functional.smooth_l1_loss(guess, y)
        optimizer.zero_grad()
        # RuntimeError: Trying to backward through the graph a second time
        loss.backward(retain_graph=not FIXED)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scale = min(1.0, (step + 1) / 4)
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * scale
        apply(optimizer, model)
        print("window", step, "loss", loss.item())


def apply(optimizer, model):
    """Plain descent on .data, so that weights which an older window has saved are not said to be modified."""
    lr = optimizer.param_groups[0]["lr"]
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-lr)


model = CellStack(4, HIDDEN, LAYERS).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
train(model, optimizer, recording(WINDOW * 7))
