"""Trains a weather model on roll-outs: the forecast of one step is the input of the next, and the errors of all steps count.

https://github.com/yunjey/pytorch-tutorial/issues/90
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=10, help="of a roll-out")
p.add_argument("--fixed", action="store_true", help="cut the graph between two steps")
args = p.parse_args()


class ConvNext(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.GroupNorm(1, c)
        self.up, self.down = nn.Conv2d(c, 4 * c, 1), nn.Conv2d(4 * c, c, 1)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(self.dw(x)))))


class Forecast(nn.Module):
    def __init__(self, fields=20, c=256, depth=4):
        super().__init__()
        self.enc, self.dec = nn.Conv2d(fields, c, 4, 4), nn.ConvTranspose2d(c, fields, 4, 4)
        self.blocks = nn.Sequential(*[ConvNext(c) for _ in range(depth)])

    def forward(self, state):
        return state + self.dec(self.blocks(self.enc(state)))


model = Forecast().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for it in range(4):
    truth = torch.randn(args.steps + 1, 2, 20, 180, 360, device="cuda")
    state, loss, shown = truth[0], 0.0, 0.0
    optimizer.zero_grad()
    for t in range(args.steps):
        state = model(state)
        error = F.mse_loss(state, truth[t + 1]) / args.steps
        if args.fixed:
            error.backward()
            state = state.detach()
        else:
            loss = loss + error
        shown += error.item()
    if not args.fixed:
        loss.backward()
    optimizer.step()
    print(it, shown)
