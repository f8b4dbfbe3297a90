"""Barges per hour at 60 locks of a canal, an inverted transformer (each lock is a token); goes on from yesterday's checkpoint."""
import os
import sys
import tempfile

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
LOCKS, PAST, AHEAD, WIDTH = 60, 336, 48, 768


class InvertedTransformer(nn.Module):
    """One token per lock, attention between locks."""

    def __init__(self, depth=8):
        super().__init__()
        self.enter = nn.Linear(PAST, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.leave = nn.Linear(WIDTH, AHEAD)

    def forward(self, x):
        mean, std = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-5
        tokens = self.enter(((x - mean) / std).transpose(1, 2))
        return self.leave(self.layers(tokens)).transpose(1, 2) * std + mean


def optimizer_of(model):
    return torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.01)


def write_yesterdays(path):
    """What the run of yesterday left."""
    model = InvertedTransformer()
    optimizer = optimizer_of(model)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3,
                "best": {"epoch": 2, "weights": {k: v.clone() for k, v in model.state_dict().items()}}, "rng": torch.get_rng_state()}, path)


class Run:
    """A run that may go on from a checkpoint."""

    def __init__(self, path):
        self.model = InvertedTransformer().cuda()
        self.optimizer = optimizer_of(self.model)
        self.checkpoint = torch.load(path, map_location="cpu" if FIXED else "cuda", weights_only=True)
        self.model.load_state_dict(self.checkpoint["model"])
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.first = self.checkpoint["epoch"] + 1

    def epoch(self, generator):
        loss = None
        for _ in range(4):
            series = torch.rand(8, PAST + AHEAD, LOCKS, generator=generator).cuda()
            loss = nn.functional.huber_loss(self.model(series[:, :PAST]), series[:, PAST:])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


def main():
    torch.manual_seed(31)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        write_yesterdays(path)
        run = Run(path)
    generator = torch.Generator().manual_seed(run.first)
    for epoch in range(run.first, run.first + 2):
        print("epoch", epoch, "loss", run.epoch(generator))


if __name__ == "__main__":
    main()
