# Pet breeds - notebook for lesson 4, exported from Colab and cleaned up a bit
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = "--fixed" in sys.argv
device = torch.device("cuda")
torch.manual_seed(42)

# ## Settings
BATCH_SIZE = 40 if FIXED else 160
IMG_SIZE = 176
NUM_BREEDS = 37
EPOCHS = 2


# ## Data (stand-in for the download)
def make_split(n):
    base = torch.rand(40, 3, IMG_SIZE, IMG_SIZE)
    return TensorDataset(base.repeat(n // 40, 1, 1, 1), torch.randint(0, NUM_BREEDS, (n,)))


train_dl = DataLoader(make_split(480), batch_size=BATCH_SIZE, shuffle=True)
valid_dl = DataLoader(make_split(80), batch_size=40)


# ## Model: resnet-50 style bottlenecks, only shorter
class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        out = planes * self.expansion
        self.conv1, self.bn1 = nn.Conv2d(inplanes, planes, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv3, self.bn3 = nn.Conv2d(planes, out, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inplanes != out:
            self.downsample = nn.Sequential(nn.Conv2d(inplanes, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + identity)


def build(layers=(2, 2, 3, 2), width=48):
    mods = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inplanes = width
    for i, n in enumerate(layers):
        for j in range(n):
            planes = width * 2 ** i
            mods.append(Bottleneck(inplanes, planes, 2 if j == 0 and i > 0 else 1))
            inplanes = planes * 4
    return nn.Sequential(*mods, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(inplanes, NUM_BREEDS))


net = build().to(device)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)

# ## Train
for epoch in range(EPOCHS):
    net.train()
    running = 0.0
    for xb, yb in train_dl:
        xb, yb = xb.to(device), yb.to(device)
        opt.zero_grad()
        loss = criterion(net(xb), yb)
        loss.backward()
        opt.step()
        running += loss.item() * len(xb)
    net.eval()
    correct = 0
    with torch.no_grad():
        for xb, yb in valid_dl:
            correct += (net(xb.to(device)).argmax(1).cpu() == yb).sum().item()
    print(f"epoch {epoch}: train loss {running / 480:.4f}  valid acc {correct / 80:.3f}")
