"""Grades bagpipe reeds by the sound of one long note. Training sees random cuts, validation the whole recordings."""
import argparse
import contextlib

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()


class Res1d(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a = nn.Conv1d(cin, cout, 9, stride, 4)
        self.b = nn.Conv1d(cout, cout, 9, 1, 4)
        self.na, self.nb = nn.BatchNorm1d(cout), nn.BatchNorm1d(cout)
        self.short = nn.Conv1d(cin, cout, 1, stride)

    def forward(self, x):
        y = torch.relu(self.na(self.a(x)))
        return torch.relu(self.nb(self.b(y)) + self.short(x))


class ReedGrader(nn.Module):
    def __init__(self, grades=5):
        super().__init__()
        widths = [32, 64, 96, 128, 160]
        self.stem = nn.Conv1d(1, 32, 15, 2, 7)
        self.blocks = nn.Sequential(*[Res1d(c, d, 2) for c, d in zip([32] + widths, widths)])
        self.out = nn.Linear(160, grades)

    def forward(self, wave):
        return self.out(self.blocks(self.stem(wave)).mean(-1))


class Trainer:
    def __init__(self):
        self.gen = torch.Generator().manual_seed(3)
        self.model = ReedGrader().cuda()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
        self.loss = nn.CrossEntropyLoss()

    def notes(self, count, seconds, size):
        for _ in range(count):
            yield torch.randn(size, 1, 22050 * seconds, generator=self.gen).cuda(), torch.randint(0, 5, (size,), generator=self.gen).cuda()

    def epoch(self):
        self.model.train()
        for wave, grade in self.notes(6, 2, 16):
            self.opt.zero_grad()
            loss = self.loss(self.model(wave), grade)
            loss.backward()
            self.opt.step()
        return loss.item()

    def validate(self):
        self.model.eval()
        losses, hits = [], 0
        with torch.no_grad() if args.fixed else contextlib.nullcontext():
            for wave, grade in self.notes(4, 12, 16):
                logits = self.model(wave)
                losses.append(self.loss(logits, grade).item())
                hits += (logits.argmax(-1) == grade).sum().item()
        return sum(losses) / len(losses), hits


trainer = Trainer()
for number in range(args.epochs):
    print("epoch", number, "train", trainer.epoch(), "validation", *trainer.validate())
