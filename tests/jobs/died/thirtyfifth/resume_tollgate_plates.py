"""Number plates at toll gates. Goes on from last week's run: weights and averaged weights are in the checkpoint."""
import os
import sys
import tempfile

import torch
from torch import nn

ALPHABET, LENGTH = 40, 9


class PlateNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(),
                                  nn.Conv2d(128, 256, 3, 2, 1), nn.ReLU())
        self.dense = nn.Sequential(nn.Flatten(), nn.Linear(256 * 6 * 20, 2048), nn.ReLU(), nn.Dropout(0.4), nn.Linear(2048, 1024), nn.ReLU())
        self.chars = nn.Linear(1024, ALPHABET * LENGTH)

    def forward(self, x):
        return self.chars(self.dense(self.conv(x))).view(-1, LENGTH, ALPHABET)


def last_weeks_run(path):
    weights = PlateNet().state_dict()
    torch.save({"epoch": 14, "model": weights, "ema": {k: v.clone() for k, v in weights.items()}, "best": 0.981}, path)


class GateTrainer:
    def __init__(self, path):
        self.model = PlateNet().cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.restore(path)

    def restore(self, path):
        self.checkpoint = torch.load(path, map_location="cpu" if "--fixed" in sys.argv else "cuda")
        self.model.load_state_dict(self.checkpoint["model"])
        self.epoch, self.best = self.checkpoint["epoch"] + 1, self.checkpoint["best"]

    def batches(self, count, size=32):
        g = torch.Generator().manual_seed(self.epoch)
        for _ in range(count):
            yield torch.rand(size, 3, 48, 160, generator=g).cuda(), torch.randint(0, ALPHABET, (size, LENGTH), generator=g).cuda()

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for plates, text in self.batches(5):
            self.optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(self.model(plates).flatten(0, 1), text.flatten())
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        self.epoch += 1
        return total / 5


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "gate_014.pt")
        last_weeks_run(path)
        trainer = GateTrainer(path)
    for _ in range(2):
        print("epoch", trainer.epoch, "loss", trainer.train_epoch(), "best so far", trainer.best)


if __name__ == "__main__":
    main()
