"""What the training loops of loops.py have in common: a model, its inputs, the plain loop, and the marks."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from marks import Marks

WIDTH, BATCH, STEPS = 640, 384, 4
LOOPS = {}
models = []
m = Marks()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


class Net(nn.Module):
    """`trap`: a call of this many rows asks one block for more than the device has."""

    def __init__(self, width=WIDTH, layers=4, out=None, recompute=False):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, out or width)
        self.recompute, self.trap = recompute, None

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
            if self.trap and self.trap == len(x) and i == 2:
                x = x + torch.empty(1 << 40, device="cuda")[0]
        return self.head(x)


def net(*args, **keys):
    models.append(Net(*args, **keys).cuda())
    return models[-1]


def batch(rows=BATCH):
    return m.input(rows, WIDTH)


def loop(function):
    LOOPS[function.__name__] = function
    return function


def train(model, optimizer, steps=STEPS, loss_of=lambda out, y: F.mse_loss(out, y), before=None, after=None, clip=None):
    """The plain loop: forward, backward, optimizer, then `after`."""
    for _ in range(steps):
        m.forward()
        x, y = batch(), batch()
        if before:
            before(model, optimizer)
        loss = loss_of(model(x), y)
        m.backward()
        loss.backward()
        m.optimizer()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if after:
            after(model, optimizer)
        m.next()


def adamw(model, **keys):
    return torch.optim.AdamW(model.parameters(), lr=1e-4, **keys)
