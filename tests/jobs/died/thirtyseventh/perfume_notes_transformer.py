"""Predicts the missing notes of a perfume from those on its pyramid. A run that was stopped yesterday goes on from its checkpoint."""
import os
import sys
import tempfile

import torch
from torch import nn

NOTES, DIM = 9000, 768
MAP = "cpu" if "--fixed" in sys.argv else "cuda"


def make_model():
    layer = nn.TransformerEncoderLayer(DIM, 12, 4 * DIM, dropout=0.0, batch_first=True, norm_first=True)
    return nn.ModuleDict({"embed": nn.Embedding(NOTES, DIM), "body": nn.TransformerEncoder(layer, 6, enable_nested_tensor=False),
                          "out": nn.Linear(DIM, NOTES)})


def predict(model, notes):
    return model["out"](model["body"](model["embed"](notes)))


def yesterday(path):
    """What the run of yesterday left behind: weights, best weights so far, averaged weights, Adam, counters."""
    model = make_model()
    adam = torch.optim.Adam(model.parameters(), lr=1e-4)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    adam.step()
    weights = model.state_dict()
    torch.save({"model": weights, "best": {k: v.clone() for k, v in weights.items()}, "average": {k: v.clone() for k, v in weights.items()},
                "optimizer": adam.state_dict(), "step": 4200, "best_loss": 3.1}, path)


class Session:
    def __init__(self, path):
        self.checkpoint = torch.load(path, map_location=MAP, weights_only=True)
        self.model = make_model()
        self.model.load_state_dict(self.checkpoint["model"])
        self.model.cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.step, self.best = self.checkpoint["step"], self.checkpoint["best_loss"]
        self.g = torch.Generator().manual_seed(self.step)

    def perfumes(self, size=32, notes=12):
        full = torch.randint(1, NOTES, (size, notes), generator=self.g)
        hidden = torch.rand(size, notes, generator=self.g) < 0.25
        return full.masked_fill(hidden, 0).cuda(), full.cuda()

    def train(self, steps):
        for _ in range(steps):
            seen, full = self.perfumes()
            loss = nn.functional.cross_entropy(predict(self.model, seen).flatten(0, 1), full.flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
            print(self.step, loss.item(), "best so far", self.best)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "last.pt")
    yesterday(path)
    session = Session(path)
session.train(6)
