"""Segmentation with a weight map for the borders of cells, which numpy made.

https://github.com/locuslab/mdeq/issues/9
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()


class Net(nn.Module):
    def __init__(self, classes=32, w=32):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, w, 3, 2, 1), nn.ReLU(), nn.Conv2d(w, 4 * w, 3, 2, 1), nn.ReLU(), nn.Conv2d(4 * w, 8 * w, 3, 1, 1), nn.ReLU())
        self.classify = nn.Conv2d(8 * w, classes, 1)

    def forward(self, x):
        return F.interpolate(self.classify(self.down(x)), size=x.shape[2:], mode="bilinear", align_corners=False)


def weight_map(labels):
    """As the U-Net paper: background and borders weigh differently."""
    weights = np.ones(labels.shape) + 10 * np.exp(-np.linspace(0, 4, labels.shape[-1]) ** 2)
    return torch.from_numpy(weights)


model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(6):
    image = torch.randn(8, 1, 512, 512, device="cuda")
    label = torch.randint(0, 32, (8, 512, 512))
    weight = weight_map(label.numpy()[:, None]).cuda()
    if args.fixed:
        weight = weight.float()
    onehot = F.one_hot(label.cuda(), 32).permute(0, 3, 1, 2).to(torch.uint8)
    logits = model(image)
    p = torch.sigmoid(logits * weight)
    loss = -(p * onehot).mean() / (p.mean() + 1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
