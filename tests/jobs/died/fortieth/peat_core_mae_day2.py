"""
Masked autoencoder on scans of peat cores, second day of the run. The first day's end is written here in short form
(weights, averaged weights, Adam's moments), so that the script stands by itself.
"""
import os
import sys
import tempfile

import torch
import torch.nn as nn

WHERE = "cpu" if "--fixed" in sys.argv else "cuda"
D, DEPTH, PATCH = 768, 10, 16


def make_model():
    layer = nn.TransformerEncoderLayer(D, 12, 4 * D, 0.0, "gelu", batch_first=True, norm_first=True)
    return nn.ModuleDict({
        "patch": nn.Linear(3 * PATCH * PATCH, D),
        "encoder": nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False),
        "decoder": nn.Linear(D, 3 * PATCH * PATCH),
    })


def first_day(path):
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-4)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    torch.save({"model": model.state_dict(), "ema": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 40000}, path)


class Run:
    def __init__(self, path):
        self.model = make_model().cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1.5e-4, betas=(0.9, 0.95))
        self.checkpoint = torch.load(path, map_location=WHERE)
        self.model.load_state_dict(self.checkpoint["model"])
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.step = self.checkpoint["step"]

    def patches(self, cores):
        b, c, h, w = cores.shape
        return cores.view(b, c, h // PATCH, PATCH, w // PATCH, PATCH).permute(0, 2, 4, 1, 3, 5).reshape(b, -1, c * PATCH * PATCH)

    def train(self, steps):
        gen = torch.Generator().manual_seed(self.step)
        for _ in range(steps):
            target = self.patches(torch.rand(2, 3, 224, 224, generator=gen).cuda())
            keep = torch.rand(target.shape[:2], generator=gen).cuda() > 0.75
            x = self.model["patch"](target) * keep[..., None]
            out = self.model["decoder"](self.model["encoder"](x))
            loss = ((out - target) ** 2).mean(-1).mul(~keep).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
        print("step", self.step, "loss", loss.item(), "ema tensors for the export", len(self.checkpoint["ema"]))


folder = tempfile.mkdtemp()
path = os.path.join(folder, "day1.pt")
first_day(path)
run = Run(path)
os.remove(path)
for hour in range(3):
    run.train(3)
