"""Surrogate of crash simulations (design parameters -> deceleration pulse); one cyclic run gives an ensemble for the uncertainty."""
import copy
import math
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
CYCLES, STEPS_PER_CYCLE, LR_MAX = 8, 4, 0.02


def mlp(n_in=64, n_out=2000, width=4096):
    hidden = [nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()]
    return nn.Sequential(nn.Linear(n_in, width), nn.SiLU(), *hidden, nn.Linear(width, n_out))


def designs(n, g):
    x = torch.rand(n, 64, generator=g)
    t = torch.linspace(0, 1, 2000)
    return x, torch.sin(math.pi * t)[None] * x[:, :1]


def ensemble_predict(members, x):
    preds = []
    for member in members:
        member = member.to("cuda").eval()
        with torch.no_grad():
            preds.append(member(x).cpu())
        if FIXED:
            member.to("cpu")
    stack = torch.stack(preds)
    return stack.mean(0), stack.std(0)


g = torch.Generator().manual_seed(7)
model = mlp().to("cuda")
opt = torch.optim.SGD(model.parameters(), lr=LR_MAX, momentum=0.9)
members = []
for cycle in range(CYCLES):
    for step in range(STEPS_PER_CYCLE):
        for group in opt.param_groups:
            group["lr"] = LR_MAX / 2 * (math.cos(math.pi * step / STEPS_PER_CYCLE) + 1)
        x, pulse = designs(256, g)
        loss = nn.functional.mse_loss(model(x.cuda()), pulse.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("cycle", cycle, "mse", loss.item())
    member = copy.deepcopy(model)
    members.append(member.cpu() if FIXED else member)

opt.zero_grad()
mean, std = ensemble_predict(members[-4:], designs(64, g)[0].cuda())
print("peak deceleration", mean.max().item(), "+-", std.max().item())
