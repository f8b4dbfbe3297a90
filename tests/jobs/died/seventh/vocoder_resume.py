"""Fine-tunes a neural vocoder on a new speaker, from the checkpoint of a long training run on many speakers."""
import os
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
MELS, SEGMENT = 80, 32


class Period(nn.Module):
    """Residual layers with several dilations."""

    def __init__(self, channels, kernel):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(channels, channels, kernel, padding=d * (kernel // 2), dilation=d) for d in (1, 3, 5))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(F.leaky_relu(x, 0.1))
        return x


class Vocoder(nn.Module):
    def __init__(self, channels=768, rates=(8, 8, 4)):
        super().__init__()
        self.before = nn.Conv1d(MELS, channels, 7, padding=3)
        self.ups, self.mixes = nn.ModuleList(), nn.ModuleList()
        for rate in rates:
            self.ups.append(nn.ConvTranspose1d(channels, channels // 2, 2 * rate, rate, rate // 2))
            channels //= 2
            self.mixes.append(nn.ModuleList(Period(channels, kernel) for kernel in (3, 7, 11)))
        self.after = nn.Conv1d(channels, 1, 7, padding=3)

    def forward(self, mel):
        x = self.before(mel)
        for up, mixes in zip(self.ups, self.mixes):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(mix(x) for mix in mixes) / len(mixes)
        return torch.tanh(self.after(F.leaky_relu(x)))


def pretrained(path):
    """What the long run left: weights, the optimizer's state and where it stood."""
    model = Vocoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    torch.save({"generator": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": 400_000, "speakers": 109}, path)


class FineTuning:
    def __init__(self, path, lr):
        self.device = torch.device("cuda:0")
        self.checkpoint = torch.load(path, map_location="cpu" if FIXED else self.device)
        self.model = Vocoder().to(self.device)
        self.model.load_state_dict(self.checkpoint["generator"])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.first_step = self.checkpoint["steps"]

    def spectral_loss(self, wave, target):
        loss = F.l1_loss(wave, target)
        for size in (64, 256):
            loss = loss + F.l1_loss(F.avg_pool1d(wave.abs(), size), F.avg_pool1d(target.abs(), size))
        return loss

    def run(self, steps):
        for step in range(self.first_step, self.first_step + steps):
            mel, target = torch.zeros(4, MELS, SEGMENT).to(self.device), torch.zeros(4, 1, SEGMENT * 256).to(self.device)
            loss = self.spectral_loss(self.model(mel), target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print("step", step, "loss", loss.item(), "speakers", self.checkpoint["speakers"])


with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "g_00400000.pt")
    pretrained(path)
    FineTuning(path, 1e-4).run(4)
