"""The tutorial's clothes classifier, grown to photographs of 96 by 96 pixels, with augmentation and a validation split."""
import sys

import torch
from torch import nn
from torch.nn import functional as F

FIXED = "--fixed" in sys.argv
device = "cuda"


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2))


net = nn.Sequential(block(3, 32), block(32, 64), block(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).to(device)


def photographs(n):
    pixels = torch.zeros(n, 3, 96, 96, dtype=torch.uint8)
    labels = torch.randint(0, 10, (n,))
    return pixels, labels


def normalise(pixels):
    mean = torch.tensor([0.5, 0.5, 0.5], device=pixels.device).view(1, 3, 1, 1)
    return (pixels.float() / 255 - mean) / 0.25


pixels, labels = photographs(5000)
cut = 4000
if FIXED:
    train_x, train_y, val_x, val_y = pixels[:cut], labels[:cut], pixels[cut:], labels[cut:]
else:
    images = normalise(pixels.to(device))
    labels = labels.to(device)
    train_x, train_y, val_x, val_y = images[:cut], labels[:cut], images[cut:], labels[cut:]


def batch_of(x, y, rows):
    x, y = x[rows].to(device), y[rows].to(device)
    if FIXED:
        x = normalise(x)
    return x, y


def flipped(x):
    return x.flip(-1) if torch.rand(()) < 0.5 else x


optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
for epoch in range(2):
    net.train()
    order = torch.randperm(cut)
    for k in range(0, cut, 64):
        x, y = batch_of(train_x, train_y, order[k:k + 64].to(train_x.device))
        loss = F.cross_entropy(net(flipped(x)), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    hits = 0
    with torch.no_grad():
        for k in range(0, len(val_y), 64):
            x, y = batch_of(val_x, val_y, torch.arange(k, min(k + 64, len(val_y))).to(val_x.device))
            hits += (net(x).argmax(1) == y).sum().item()
    print("epoch", epoch, "loss", loss.item(), "hits", hits)
