"""Continues the training of a fingerprint matcher from its last checkpoint, which holds the network, its moving average and the optimizer."""
import os
import sys
import tempfile

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv


class Matcher(nn.Module):
    def __init__(self, width=1024, depth=8):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 16, 16)
        layer = nn.TransformerEncoderLayer(width, 16, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.embed = nn.Linear(width, 256)

    def forward(self, x):
        return nn.functional.normalize(self.embed(self.encoder(self.patches(x).flatten(2).transpose(1, 2)).mean(1)), dim=-1)


def write_checkpoint(path):
    """Stands for the run that was interrupted."""
    model = Matcher()
    state = model.state_dict()
    moments = {n: {"step": torch.tensor(900.0), "momentum_buffer": torch.zeros_like(p)} for n, p in enumerate(model.parameters())}
    group = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9).state_dict()["param_groups"]
    average = {k: v.clone() for k, v in state.items()}
    torch.save({"model": state, "ema": average, "optimizer": {"state": moments, "param_groups": group}, "step": 900}, path)


class Run:
    def __init__(self, path):
        self.model = Matcher().cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, foreach=False)
        self.checkpoint = torch.load(path, map_location="cpu" if FIXED else "cuda")
        self.model.load_state_dict(self.checkpoint["model"])
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.step = self.checkpoint["step"]

    def train(self, steps):
        criterion = nn.TripletMarginLoss(0.3)
        for _ in range(steps):
            anchor, same, other = self.model(torch.rand(12, 1, 160, 160).cuda()).chunk(3)
            loss = criterion(anchor, same, other)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
            print(self.step, loss.item())


with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "last.pt")
    write_checkpoint(file)
    run = Run(file)
run.train(4)
