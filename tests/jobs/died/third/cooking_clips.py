"""Action recognition on cooking clips, 3D ResNet by hand. 24 clips of 16 frames a batch is what the paper had, on eight GPUs."""
import sys

import torch
from torch import nn


def conv(i, o, stride=1):
    return nn.Sequential(nn.Conv3d(i, o, 3, stride, 1, bias=False), nn.BatchNorm3d(o), nn.ReLU(inplace=True))


class Res(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.a, self.b = conv(i, o, stride), nn.Sequential(nn.Conv3d(o, o, 3, 1, 1, bias=False), nn.BatchNorm3d(o))
        self.skip = nn.Conv3d(i, o, 1, stride, bias=False) if stride > 1 or i != o else nn.Identity()

    def forward(self, x):
        return torch.relu(self.b(self.a(x)) + self.skip(x))


class Clips(nn.Module):
    def __init__(self, classes=97):
        super().__init__()
        self.stem = conv(3, 64, (1, 2, 2))
        self.body = nn.Sequential(Res(64, 64, 1), Res(64, 64, 1), Res(64, 128, 2), Res(128, 128, 1), Res(128, 256, 2), Res(256, 256, 1))
        self.fc = nn.Linear(256, classes)

    def forward(self, x):
        return self.fc(self.body(self.stem(x)).mean((2, 3, 4)))


BATCH = 24
MICRO = 6 if "--fixed" in sys.argv else BATCH
net = Clips().cuda()
sgd = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, nesterov=True)
ce = nn.CrossEntropyLoss()
for it in range(5):
    clips, labels = torch.zeros(BATCH, 3, 16, 112, 112), torch.randint(0, 97, (BATCH,))
    sgd.zero_grad()
    for x, y in zip(clips.split(MICRO), labels.split(MICRO)):
        loss = ce(net(x.cuda(non_blocking=True)), y.cuda()) * len(x) / BATCH
        loss.backward()
    sgd.step()
print("loss", loss.item())
