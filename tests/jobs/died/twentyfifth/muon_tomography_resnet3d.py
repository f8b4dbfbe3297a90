import sys
import torch as th
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

fixed = "--fixed" in sys.argv


def synth(n, seed):
    """Scattering densities of cargo containers, 48^3 voxels, and the class of the densest object."""
    g = th.Generator().manual_seed(seed)
    return TensorDataset(th.rand(n, 2, 48, 48, 48, generator=g), th.randint(0, 6, (n,), generator=g))


class ResBlock3d(nn.Module):
    def __init__(self, a, b, stride=1):
        super().__init__()
        self.c1 = nn.Conv3d(a, b, 3, stride, 1, bias=False)
        self.b1 = nn.BatchNorm3d(b)
        self.c2 = nn.Conv3d(b, b, 3, 1, 1, bias=False)
        self.b2 = nn.BatchNorm3d(b)
        self.short = nn.Sequential(nn.Conv3d(a, b, 1, stride, bias=False), nn.BatchNorm3d(b)) if a != b or stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.b2(self.c2(F.relu(self.b1(self.c1(x)))))
        return F.relu(y + self.short(x))


class MuonNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv3d(2, w, 3, padding=1, bias=False), nn.BatchNorm3d(w), nn.ReLU())
        self.body = nn.Sequential(ResBlock3d(w, w), ResBlock3d(w, w), ResBlock3d(w, 2 * w, 2), ResBlock3d(2 * w, 2 * w),
                                  ResBlock3d(2 * w, 4 * w, 2), ResBlock3d(4 * w, 4 * w))
        self.fc = nn.Linear(4 * w, 6)

    def forward(self, x):
        return self.fc(self.body(self.stem(x)).mean((2, 3, 4)))


class Runner:
    def __init__(self):
        self.net = MuonNet().cuda()
        self.opt = th.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        self.train_dl = DataLoader(synth(32, 0), batch_size=4, shuffle=True)
        self.valid_dl = DataLoader(synth(64, 1), batch_size=16)

    def fit(self, epochs):
        for e in range(epochs):
            self.net.train()
            for x, y in self.train_dl:
                loss = F.cross_entropy(self.net(x.cuda()), y.cuda(), label_smoothing=0.1)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
            print(e, "train", loss.item(), "valid", self.validate())

    def validate(self):
        self.net.eval()
        if fixed:
            with th.no_grad():
                return self._score()
        return self._score()

    def _score(self):
        right = total = 0
        for x, y in self.valid_dl:
            guess = self.net(x.cuda()).argmax(1)
            right += (guess.cpu() == y).sum().item()
            total += len(y)
        return right / total


Runner().fit(2)
