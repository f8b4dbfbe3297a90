"""Finds crackles and wheezes in spectrograms of lungs; after each epoch the area under the curve of the validation patients is printed."""
import contextlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

FIXED = "--fixed" in sys.argv
CLASSES = 4


class Gated(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(inside, 2 * outside, 3, padding=1), nn.BatchNorm2d(2 * outside)

    def forward(self, x):
        return F.max_pool2d(F.glu(self.norm(self.conv(x)), dim=1), 2)


class LungNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(Gated(1, 32), nn.Dropout(0.2), Gated(32, 64), nn.Dropout(0.2), Gated(64, 96), Gated(96, 128))
        self.score, self.weigh = nn.Linear(128, CLASSES), nn.Linear(128, 1)

    def forward(self, x):
        states = self.convs(x).mean(2).transpose(1, 2)
        return (self.score(states) * self.weigh(states).softmax(1)).sum(1)


def patients(n):
    return TensorDataset(torch.zeros(n, 1, 64, 256), torch.randint(0, 2, (n, CLASSES)).float())


class Study:
    def __init__(self):
        self.net = LungNet().to("cuda")
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.train = DataLoader(patients(64), batch_size=16, shuffle=True)
        self.val = DataLoader(patients(128), batch_size=16)

    def fit(self):
        self.net.train()
        losses = []
        for x, y in self.train:
            loss = F.binary_cross_entropy_with_logits(self.net(x.to("cuda")), y.to("cuda"))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    def validate(self):
        self.net.eval()
        scores, truth, losses = [], [], []
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            for x, y in self.val:
                logits = self.net(x.to("cuda"))
                losses.append(F.binary_cross_entropy_with_logits(logits, y.to("cuda")))
                scores.append(logits.sigmoid())
                truth.append(y)
            loss = torch.stack(losses).mean().item()
            return loss, area(torch.cat(scores).detach().cpu(), torch.cat(truth))


def area(scores, truth):
    found = []
    for s, t in zip(scores.T, truth.T):
        above = (s[t == 1][:, None] > s[t == 0][None]).float()
        found.append(above.mean().item() if above.numel() else 0.5)
    return sum(found) / len(found)


study = Study()
for epoch in range(2):
    print(epoch, study.fit(), *study.validate())
