"""Noise reduction for hearing aids with a recurrent network on spectra. The cluster stops jobs at night; the next one goes on from the file."""
import copy
import gc
import os
import sys
import tempfile

import torch
import torch.nn as nn

BINS = 257
MAP_LOCATION = "cpu" if "--fixed" in sys.argv else "cuda"


class Enhancer(nn.Module):
    def __init__(self, hidden=896):
        super().__init__()
        self.inp = nn.Linear(BINS, hidden)
        self.rnn = nn.LSTM(hidden, hidden, num_layers=5, batch_first=True)
        self.mask = nn.Linear(hidden, BINS)

    def forward(self, spectrum):
        return torch.sigmoid(self.mask(self.rnn(torch.relu(self.inp(spectrum)))[0])) * spectrum


def to_cpu(state):
    return {name: tensor.detach().cpu().clone() for name, tensor in state.items()}


class Checkpoint:
    """The file of a run: newest, best and averaged weights, the optimizer and the number of the step."""

    def __init__(self, path):
        self.path, self.content = path, None

    def save(self, **content):
        torch.save(content, self.path)

    def load(self):
        if os.path.exists(self.path):
            self.content = torch.load(self.path, map_location=MAP_LOCATION)
        return self.content


class Session:
    def __init__(self, path):
        self.model = Enhancer().cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=5e-4)
        self.file, self.step = Checkpoint(path), 0
        self.best = self.average = to_cpu(self.model.state_dict())
        content = self.file.load()
        if content is not None:
            self.model.load_state_dict(content["model"])
            self.optimizer.load_state_dict(content["optimizer"])
            self.best, self.average = content["best"], content["average"]
            self.step = content["step"]
            print("continues at step", self.step)

    def run(self, steps):
        generator = torch.Generator().manual_seed(self.step)
        for _ in range(steps):
            noisy = torch.rand(4, 60, BINS, generator=generator).cuda()
            loss = nn.functional.l1_loss(self.model(noisy), 0.8 * noisy)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
            print("step", self.step, "loss", loss.item())

    def finish(self):
        self.file.save(model=self.model.state_dict(), optimizer=self.optimizer.state_dict(), best=self.best, average=self.average,
                       step=self.step)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "enhancer.pt")
    evening = Session(path)
    evening.run(3)
    evening.finish()
    del evening
    gc.collect()
    Session(path).run(4)
