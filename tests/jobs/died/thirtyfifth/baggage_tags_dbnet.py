"""Text detector for baggage tags on the sorting belt, after DBNet: probability and threshold maps at a quarter of the resolution."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda:0")


class BeltImages(Dataset):
    def __init__(self, n, side, seed):
        self.n, self.side, self.seed = n, side, seed

    def __getitem__(self, i):
        if i >= self.n:
            raise IndexError
        g = torch.Generator().manual_seed(self.seed * 1000 + i)
        img = torch.randint(0, 255, (3, self.side, self.side), dtype=torch.uint8, generator=g)
        tag = torch.zeros(1, self.side // 4, self.side // 4)
        tag[:, 10:30, 20:60] = 1
        return img, tag

    def __len__(self):
        return self.n


def cbr(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(True))


class DBNet(nn.Module):
    def __init__(self, w=32, k=50):
        super().__init__()
        self.k = k
        self.c1 = nn.Sequential(cbr(3, w), cbr(w, w, 2))
        self.c2 = nn.Sequential(cbr(w, 2 * w), cbr(2 * w, 2 * w, 2))
        self.c3 = nn.Sequential(cbr(2 * w, 4 * w), cbr(4 * w, 4 * w, 2))
        self.lat2, self.lat3 = nn.Conv2d(2 * w, 64, 1), nn.Conv2d(4 * w, 64, 1)
        self.prob, self.thresh = nn.Conv2d(64, 1, 3, padding=1), nn.Conv2d(64, 1, 3, padding=1)

    def forward(self, x):
        x = x.float() / 255 - 0.5
        c2 = self.c2(self.c1(x))
        c3 = self.c3(c2)
        p = F.relu(self.lat2(c2) + F.interpolate(self.lat3(c3), scale_factor=2))
        prob, thresh = torch.sigmoid(self.prob(p)), torch.sigmoid(self.thresh(p))
        return prob, thresh, torch.sigmoid(self.k * (prob - thresh))


def db_loss(out, tag):
    prob, thresh, binary = out
    dice = 1 - 2 * (binary * tag).sum() / (binary.sum() + tag.sum() + 1e-6)
    return F.mse_loss(prob, tag) + 10 * (thresh * tag).mean() + dice


@torch.inference_mode()
def evaluate(net, loader):
    net.eval()
    hits, area = 0.0, 0.0
    for img, tag in loader:
        prob, _, _ = net(img.to(device))
        found = (prob > 0.3).float().cpu()
        hits += (found * tag).sum().item()
        area += (found + tag).clamp(max=1).sum().item()
    return hits / max(area, 1.0)


train_loader = DataLoader(BeltImages(48, 320, 1), batch_size=8, shuffle=True)
val_loader = DataLoader(BeltImages(96, 640, 2), batch_size=4 if "--fixed" in sys.argv else 48)
net = DBNet().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.007, momentum=0.9, weight_decay=1e-4)
for epoch in range(2):
    net.train()
    for img, tag in train_loader:
        loss = db_loss(net(img.to(device)), tag.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item(), "iou", evaluate(net, val_loader))
