"""Age of fish from photographs of their otoliths: regression with a small residual network."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=2)
ap.add_argument("--bs", type=int, default=16)
ap.add_argument("--fixed", action="store_true")
opt = ap.parse_args()
dev = torch.device("cuda")


class Otoliths(Dataset):
    def __init__(self, n, transform=None):
        self.n, self.transform = n, transform

    def __len__(self):
        return self.n

    def __getitem__(self, idx):
        g = torch.Generator().manual_seed(idx)
        photo = torch.rand(3, 640, 640, generator=g)        # the microscope's camera
        age = torch.randint(1, 25, (1,), generator=g).float()
        if self.transform:
            photo = self.transform(photo)
        return photo, age


def shrink(photo):
    return F.interpolate(photo[None], size=(224, 224), mode="bilinear", align_corners=False)[0]


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
        self.c2, self.b2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
        self.skip = nn.Identity() if cin == cout and stride == 1 else nn.Conv2d(cin, cout, 1, stride)

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)))
        return F.relu(self.b2(self.c2(y)) + self.skip(x))


net = nn.Sequential(
    nn.Conv2d(3, 32, 7, 2, 3), nn.BatchNorm2d(32), nn.ReLU(),
    Block(32, 32), Block(32, 64, 2), Block(64, 64), Block(64, 128, 2), Block(128, 256, 2),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, 1),
).to(dev)
loader = DataLoader(Otoliths(64, shrink if opt.fixed else None), batch_size=opt.bs, shuffle=True)
optim = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)

for ep in range(opt.epochs):
    running = 0.0
    for photo, age in loader:
        photo, age = photo.to(dev), age.to(dev)
        loss = F.l1_loss(net(photo), age)
        optim.zero_grad()
        loss.backward()
        optim.step()
        running += loss.item()
    print(f"epoch {ep}: {running / len(loader):.3f} years")
