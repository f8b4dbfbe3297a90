# Which volcano is it? Classifier for infrasound traces of an array of eight microphones (master's thesis, chapter 4).
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

BATCH = 48 if args.fixed else 160
SAMPLES = 6000   # two minutes at 50 Hz
VOLCANOES = 14


class Traces(Dataset):
    def __init__(self, n):
        self.n = n
        self.t = torch.linspace(0, 120, SAMPLES)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        f = 0.5 + (i % VOLCANOES) * 0.3
        wave = torch.sin(2 * math.pi * f * self.t)
        return wave.repeat(8, 1), i % VOLCANOES


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, cout, 9, stride, 4, bias=False)
        self.bn1 = nn.BatchNorm1d(cout)
        self.conv2 = nn.Conv1d(cout, cout, 9, 1, 4, bias=False)
        self.bn2 = nn.BatchNorm1d(cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride) if (cin != cout or stride > 1) else nn.Identity()

    def forward(self, x):
        h = torch.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return torch.relu(h + self.skip(x))


class InfraNet(nn.Module):
    def __init__(self):
        super().__init__()
        widths, strides = [48, 48, 64, 96, 128], [1, 2, 2, 2, 2]
        layers, c = [], 8
        for w, s in zip(widths, strides):
            layers.append(ResBlock(c, w, s))
            c = w
        self.trunk = nn.Sequential(*layers)
        self.score = nn.Conv1d(c, 1, 1)
        self.fc = nn.Linear(c, VOLCANOES)

    def forward(self, x):
        h = self.trunk(x)
        a = torch.softmax(self.score(h), dim=-1)
        return self.fc((h * a).sum(-1))


device = torch.device("cuda")
net = InfraNet().to(device)
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.05)
loader = DataLoader(Traces(480), batch_size=BATCH, shuffle=True)
criterion = nn.CrossEntropyLoss()

for epoch in range(args.epochs):
    net.train()
    total, seen = 0.0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        opt.zero_grad(set_to_none=True)
        loss = criterion(net(x), y)
        loss.backward()
        opt.step()
        total += loss.item() * len(y)
        seen += len(y)
    print(f"epoch {epoch}: {total / seen:.4f} over {seen} traces")
