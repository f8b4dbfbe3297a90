"""Continues the training of an image classifier from a checkpoint with weights, averaged weights and optimizer.

After https://github.com/huggingface/pytorch-image-models/issues/72 and https://github.com/autonomousvision/projected-gan/pull/47
"""
import copy
import sys

import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.channels = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.tokens(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.n2(x))


class MLPMixer(nn.Module):
    def __init__(self, dim=768, depth=12, classes=1000):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 32, 32)
        self.blocks = nn.Sequential(*[Mixer(49, dim) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x).flatten(2).transpose(1, 2)).mean(1))


def earlier_run(path):
    """Writes what an earlier run would have left."""
    net = MLPMixer()
    zeros = [{"step": torch.tensor(100.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)} for p in net.parameters()]
    optimizer = torch.optim.AdamW(net.parameters()).state_dict()
    optimizer["state"] = dict(enumerate(zeros))
    torch.save({"epoch": 3, "model": net.state_dict(), "ema": copy.deepcopy(net).state_dict(), "optimizer": optimizer}, path)


def main():
    fixed, device = "--fixed" in sys.argv, torch.device("cuda")
    earlier_run("last.pth")
    model = MLPMixer().to(device)
    ema = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    checkpoint = torch.load("last.pth", map_location="cpu" if fixed else device)
    model.load_state_dict(checkpoint["model"])
    ema.load_state_dict(checkpoint["ema"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    for step in range(6):
        images, labels = torch.rand(16, 3, 224, 224).to(device), torch.randint(1000, (16,)).to(device)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 1e-3)
        print("epoch", checkpoint["epoch"], "step", step, loss.item())


if __name__ == "__main__":
    main()
