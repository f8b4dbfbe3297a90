"""Segments tumours in MR volumes with a 3-D network; goes back to the last good state when the loss is not finite."""
import copy
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class Stage(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.net = nn.Sequential(nn.Conv3d(inner, outer, 3, stride, 1), nn.InstanceNorm3d(outer, affine=True), nn.LeakyReLU(0.01),
                                 nn.Conv3d(outer, outer, 3, 1, 1), nn.InstanceNorm3d(outer, affine=True), nn.LeakyReLU(0.01))

    def forward(self, x):
        return self.net(x)


class VolumeNet(nn.Module):
    def __init__(self, widths=(16, 48, 128, 320, 480), classes=4):
        super().__init__()
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        inner = 4
        for k, width in enumerate(widths):
            self.down.append(Stage(inner, width, 2 if k else 1))
            inner = width
        for a, b in zip(widths[::-1], widths[-2::-1]):
            self.up.append(Stage(a + b, b, 1))
        self.out = nn.Conv3d(widths[0], classes, 1)

    def forward(self, x):
        skips = []
        for stage in self.down:
            x = stage(x)
            skips.append(x)
        skips.pop()
        for stage in self.up:
            x = stage(torch.cat([F.interpolate(x, scale_factor=2), skips.pop()], 1))
        return self.out(x)


def to_host(state):
    if isinstance(state, torch.Tensor):
        return state.to("cpu", copy=True)
    if isinstance(state, dict):
        return {k: to_host(v) for k, v in state.items()}
    return [to_host(v) for v in state] if isinstance(state, list) else state


class Guard:
    """Keeps the state of the last good step."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.state = None

    def remember(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        self.state = to_host(state) if FIXED else copy.deepcopy(state)

    def restore(self):
        self.model.load_state_dict(self.state["model"])
        self.optimizer.load_state_dict(self.state["optimizer"])


model = VolumeNet().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
guard = Guard(model, optimizer)
for step in range(10):
    volume, labels = torch.zeros(1, 4, 48, 48, 48).cuda(), torch.zeros(1, 48, 48, 48, dtype=torch.long).cuda()
    loss = F.cross_entropy(model(volume), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    value = loss.item()
    if step % 4 == 3:
        guard.remember()
    print("step", step, "loss", value, "finite" if math.isfinite(value) else "not finite")
