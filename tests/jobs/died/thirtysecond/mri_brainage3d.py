"""Brain age from T1 MRI. Trains on random 64^3 crops, validates on the whole head."""
import contextlib
import sys

import torch
import torch.nn as nn


class Res3d(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1, self.c2 = nn.Conv3d(c, c, 3, padding=1), nn.Conv3d(c, c, 3, padding=1)
        self.n1, self.n2 = nn.BatchNorm3d(c), nn.BatchNorm3d(c)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.act(self.n1(self.c1(x)))
        return self.act(x + self.n2(self.c2(y)))


class BrainAge(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        self.stem = nn.Conv3d(1, w, 5, stride=2, padding=2)
        self.body = nn.Sequential(Res3d(w), Res3d(w), nn.Conv3d(w, 2 * w, 2, 2), Res3d(2 * w), Res3d(2 * w))
        self.age = nn.Linear(2 * w, 1)

    def forward(self, vol):
        f = self.body(self.stem(vol))
        return self.age(f.mean((2, 3, 4))).squeeze(1)


class Trainer3D:
    def __init__(self, fixed):
        self.model = BrainAge().cuda()
        self.opt = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.loss = nn.L1Loss()
        self.g = torch.Generator().manual_seed(3)
        self.quiet = torch.no_grad if fixed else contextlib.nullcontext

    def volumes(self, n, b, shape):
        for _ in range(n):
            yield torch.rand(b, 1, *shape, generator=self.g), torch.rand(b, generator=self.g) * 60 + 20

    def fit_epoch(self):
        self.model.train()
        for vol, age in self.volumes(6, 4, (64, 64, 64)):
            self.opt.zero_grad()
            loss = self.loss(self.model(vol.cuda()), age.cuda())
            loss.backward()
            self.opt.step()
        return loss.item()

    def validate(self):
        self.model.eval()
        total, n = 0.0, 0
        with self.quiet():
            for vol, age in self.volumes(4, 2, (160, 192, 160)):
                out = self.model(vol.cuda())
                total += self.loss(out, age.cuda()).item() * len(age)
                n += len(age)
        return total / n


if __name__ == "__main__":
    t = Trainer3D("--fixed" in sys.argv)
    for ep in range(2):
        print(f"ep {ep}: train {t.fit_epoch():.2f} y, val {t.validate():.2f} y")
