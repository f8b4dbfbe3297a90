"""Predicts the bone age of children from x-rays of a hand: a residual network with squeeze-and-excitation, and the sex as a second input."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Settings:
    batch: int = 112
    accumulate: int = 1
    size: int = 224
    width: int = 32
    lr: float = 3e-4
    steps: int = 4


class Hands(Dataset):
    def __init__(self, size, n=480):
        self.size, self.n = size, n
        self.ages = torch.randint(12, 228, (n,)).float()

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.full((1, self.size, self.size), 0.5), torch.tensor([float(i % 2)]), self.ages[i]


class Excite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.down, self.up = nn.Linear(channels, channels // 8), nn.Linear(channels // 8, channels)

    def forward(self, x):
        weights = torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3))))))
        return x * weights[:, :, None, None]


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.excite = Excite(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False) if stride > 1 or cin != cout else nn.Identity()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.excite(self.bn2(self.conv2(y))) + self.skip(x))


class BoneAge(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, w, 7, 2, 3, bias=False), nn.BatchNorm2d(w), nn.ReLU())
        widths = [(w, w, 1), (w, 2 * w, 2), (2 * w, 2 * w, 1), (2 * w, 4 * w, 2), (4 * w, 4 * w, 1), (4 * w, 8 * w, 2)]
        self.blocks = nn.Sequential(*[Block(*p) for p in widths])
        self.head = nn.Sequential(nn.Linear(8 * w + 1, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 1))

    def forward(self, image, sex):
        features = self.blocks(self.stem(image)).mean((2, 3))
        return self.head(torch.cat([features, sex], 1)).squeeze(1)


def train(s):
    model = BoneAge(s.width).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=s.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, s.steps)
    loader = iter(DataLoader(Hands(s.size), batch_size=s.batch))
    for step in range(s.steps):
        total = 0.0
        for _ in range(s.accumulate):
            image, sex, age = (t.cuda(non_blocking=True) for t in next(loader))
            loss = F.l1_loss(model(image, sex), age / 120) / s.accumulate
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        scheduler.step()
        print("step %d  mean absolute error %.2f months" % (step, 120 * total))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    fixed = parser.parse_args().fixed
    train(Settings(batch=28, accumulate=4) if fixed else Settings())
