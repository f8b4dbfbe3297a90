"""Pre-trains an encoder of seismograms by bootstrapping: an online network predicts what a slowly moving target network says of another view."""
import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv


def layer(cin, cout, kernel, stride):
    return nn.Sequential(nn.Conv1d(cin, cout, kernel, stride, kernel // 2), nn.BatchNorm1d(cout), nn.GELU())


class Encoder(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.stem = layer(3, width, 11, 2)
        self.body = nn.ModuleList([layer(width * 2 ** (k // 2), width * 2 ** ((k + 1) // 2), 7, 1 + k % 2) for k in range(6)])
        self.project = nn.Sequential(nn.Linear(width * 8, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 128))

    def forward(self, x):
        x = self.stem(x)
        for block in self.body:
            x = block(x)
        return self.project(x.mean(-1))


class Bootstrap(nn.Module):
    def __init__(self, momentum=0.99):
        super().__init__()
        self.online = Encoder()
        self.target = copy.deepcopy(self.online)
        self.predict = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128))
        self.momentum = momentum

    @torch.no_grad()
    def follow(self):
        for slow, fast in zip(self.target.parameters(), self.online.parameters()):
            slow.lerp_(fast, 1 - self.momentum)

    def targets(self, first, second):
        if FIXED:
            with torch.no_grad():
                return self.target(first), self.target(second)
        return self.target(first), self.target(second)

    def forward(self, first, second):
        a, b = self.targets(first, second)
        p, q = self.predict(self.online(first)), self.predict(self.online(second))
        return 4 - 2 * F.cosine_similarity(p, b).mean() - 2 * F.cosine_similarity(q, a).mean()


def views(batch):
    """Amplitude, a shift and noise, as a station in another place would see the same quake."""
    def one():
        scale = 0.5 + torch.rand(batch.size(0), 1, 1, device=batch.device)
        return (batch * scale).roll(50, -1) + 0.1 * torch.randn_like(batch)
    return one(), one()


def main():
    model = Bootstrap().cuda()
    trained = [*model.online.parameters(), *model.predict.parameters()]
    optimizer = torch.optim.AdamW(trained, lr=3e-4, weight_decay=1e-2)
    for step in range(6):
        quakes = torch.zeros(64, 3, 6000)
        loss = model(*views(quakes.cuda()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.follow()
        print("step", step, loss.item())


main()
