"""Semantic segmentation: trains on crops, evaluates on whole images, and upsamples the scores of 150 classes to full size.

https://github.com/facebookresearch/detectron2/issues/153
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES, FIXED = 150, "--fixed" in sys.argv


class SegNet(nn.Module):
    def __init__(self, w=48):
        super().__init__()
        self.trunk = nn.Sequential(*[nn.Sequential(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
                                     for a, b, s in ((3, w, 2), (w, w, 1), (w, 2 * w, 2), (2 * w, 4 * w, 2), (4 * w, 8 * w, 1), (8 * w, 8 * w, 1))])
        self.head = nn.Conv2d(8 * w, CLASSES, 1)

    def forward(self, x):
        return self.head(self.trunk(x))


def train(model, optimizer):
    model.train()
    for _ in range(5):
        image, label = torch.randn(4, 3, 256, 256, device="cuda"), torch.randint(0, CLASSES, (4, 256, 256), device="cuda")
        scores = F.interpolate(model(image), size=label.shape[1:], mode="bilinear", align_corners=False)
        loss = F.cross_entropy(scores, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model):
    model.eval()
    hits = 0
    for _ in range(3):
        image, label = torch.randn(1, 3, 1024, 2048, device="cuda"), torch.randint(0, CLASSES, (1, 1024, 2048), device="cuda")
        low = model(image)
        if FIXED:  # predict at the network's own resolution
            prediction = F.interpolate(low.argmax(1, keepdim=True).float(), size=label.shape[1:]).long()[:, 0]
        else:
            probs = F.softmax(F.interpolate(low, size=label.shape[1:], mode="bilinear", align_corners=False), dim=1)
            prediction = probs.argmax(1)
        hits += (prediction == label).sum().item()
    return hits


net = SegNet().cuda()
sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
for epoch in range(2):
    train(net, sgd)
    print(epoch, evaluate(net))
