"""Surrogate for a stellarator's confinement from the shape of its coils; the job goes on from the checkpoint of the night before."""
import copy
import os
import sys
import tempfile

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
COILS, WIDTH = 360, 2560


def build(device):
    layers = [nn.Linear(COILS, WIDTH), nn.SiLU()]
    for _ in range(5):
        layers += [nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.SiLU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 12)).to(device)


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def equilibria(count, g):
    coils = torch.randn(count, COILS, generator=g)
    return coils, coils[:, :12].tanh()


def average(ema, model, decay=0.999):
    with torch.no_grad():
        for slow, fast in zip(ema.parameters(), model.parameters()):
            slow.lerp_(fast, 1 - decay)


def night_before(path):
    torch.manual_seed(0)
    model = build("cpu")
    optimizer = adam(model)
    coils, confinement = equilibria(4, torch.Generator().manual_seed(1))
    nn.functional.mse_loss(model(coils), confinement).backward()
    optimizer.step()
    weights = model.state_dict()
    torch.save({"epoch": 40, "model": weights, "ema": copy.deepcopy(weights), "best": copy.deepcopy(weights), "best_error": 0.031,
                "optimizer": optimizer.state_dict()}, path)


def main(path):
    checkpoint = torch.load(path, map_location="cpu" if FIXED else "cuda")
    model, ema = build("cuda"), build("cuda").requires_grad_(False)
    model.load_state_dict(checkpoint["model"])
    ema.load_state_dict(checkpoint["ema"])
    optimizer = adam(model)
    optimizer.load_state_dict(checkpoint["optimizer"])
    best = checkpoint["best_error"]
    g = torch.Generator().manual_seed(checkpoint["epoch"])
    for epoch in range(checkpoint["epoch"], checkpoint["epoch"] + 2):
        for _ in range(4):
            coils, confinement = equilibria(512, g)
            loss = nn.functional.mse_loss(model(coils.cuda()), confinement.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average(ema, model)
        print("epoch", epoch, "loss", loss.item(), "best so far", best)


with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "last.pt")
    night_before(file)
    main(file)
