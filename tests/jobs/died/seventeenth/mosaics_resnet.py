"""Dates Roman mosaics from photographs: a residual network, five centuries."""
import sys

import torch
from torch import nn

SIDE = 320 if "--fixed" in sys.argv else 768
BATCH = 8
CENTURIES = 5


class Residual(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.relu = nn.ReLU(inplace=True)
        self.skip = nn.Identity()
        if stride != 1 or cin != cout:
            self.skip = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + self.skip(x))


def resnet18(classes):
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    blocks, cin = [], 64
    for cout, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Residual(cin, cout, stride), Residual(cout, cout)]
        cin = cout
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


class Mosaics(torch.utils.data.Dataset):
    def __init__(self, count, side):
        self.count, self.side = count, side

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.rand(3, self.side, self.side, generator=g), i % CENTURIES


net = resnet18(CENTURIES).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
loader = torch.utils.data.DataLoader(Mosaics(48, SIDE), batch_size=BATCH, shuffle=True, drop_last=True)

for epoch in range(2):
    net.train()
    for photo, century in loader:
        photo, century = photo.cuda(), century.cuda()
        opt.zero_grad()
        loss = criterion(net(photo), century)
        loss.backward()
        opt.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
