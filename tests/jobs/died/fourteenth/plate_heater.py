"""Learns a controller that heats a metal plate to a wanted temperature, by gradients through the simulation of the plate."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
SIDE, PLATES, TICKS, WINDOW = 128, 16, 160, 16


class Controller(nn.Module):
    """Looks at a coarse picture of the plate and sets the power of 64 heaters."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, 64))

    def forward(self, plate):
        power = self.net(F.adaptive_avg_pool2d(plate, 16))
        return F.softplus(power).view(-1, 1, 8, 8)


class Plate:
    def __init__(self, dt=0.1):
        kernel = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
        self.kernel, self.dt = kernel.view(1, 1, 3, 3).cuda(), dt

    def tick(self, heat, power):
        spread = F.conv2d(F.pad(heat, (1, 1, 1, 1), mode="replicate"), self.kernel)
        source = F.interpolate(power, size=(SIDE, SIDE), mode="bilinear")
        radiated = 1e-3 * heat.clamp(min=0) ** 4
        return heat + self.dt * (spread + source - radiated)


def lesson(controller, plate, optimizer, wanted):
    """One run of the simulation; the mean of the errors."""
    heat = torch.zeros(PLATES, 1, SIDE, SIDE, device="cuda")
    window = WINDOW if FIXED else TICKS
    errors = []
    for start in range(0, TICKS, window):
        for _ in range(window):
            heat = plate.tick(heat, controller(heat))
        error = F.mse_loss(heat, wanted)
        optimizer.zero_grad()
        error.backward()
        nn.utils.clip_grad_norm_(controller.parameters(), 1.0)
        optimizer.step()
        heat = heat.detach()
        errors.append(error.item())
    return sum(errors) / len(errors)


controller, plate = Controller().cuda(), Plate()
optimizer = torch.optim.Adam(controller.parameters(), lr=1e-3)
for number in range(4):
    print("lesson", number, "error", lesson(controller, plate, optimizer, torch.full((PLATES, 1, SIDE, SIDE), 2.0).cuda()))
