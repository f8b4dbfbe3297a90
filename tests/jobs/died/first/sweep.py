"""A sweep over learning rates in one process; the best run's model is used afterwards.

https://github.com/optuna/optuna/issues/5931
"""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv


def build():
    layer = nn.TransformerEncoderLayer(640, 10, 2560, batch_first=True, norm_first=True)
    return nn.Sequential(nn.Linear(64, 640), nn.TransformerEncoder(layer, 8, enable_nested_tensor=False), nn.Linear(640, 64)).cuda()


def objective(lr):
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(3):
        x = torch.randn(16, 96, 64, device="cuda")
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item(), model, optimizer


trials = []
for lr in (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5):
    value, model, optimizer = objective(lr)
    if FIXED:
        model, optimizer = model.cpu().state_dict(), None
    trials.append({"lr": lr, "value": value, "model": model, "optimizer": optimizer})
    print("lr %g: %.4f" % (lr, value))
best = min(trials, key=lambda t: t["value"])
print("best", best["lr"])
