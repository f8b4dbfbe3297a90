"""Learns labels, depth and surface normals of indoor scenes with one encoder and three heads, whose losses are weighted by learned uncertainty."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
LABELS, SIZE, BATCH = 13, 224, 8


class Bottleneck(nn.Module):
    def __init__(self, channels):
        super().__init__()
        inner = channels // 2
        self.layers = nn.Sequential(nn.Conv2d(channels, inner, 1), nn.BatchNorm2d(inner), nn.ReLU(),
                                    nn.Conv2d(inner, inner, 3, padding=1), nn.BatchNorm2d(inner), nn.ReLU(),
                                    nn.Conv2d(inner, channels, 1), nn.BatchNorm2d(channels))

    def forward(self, x):
        return F.relu(x + self.layers(x))


class Head(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.squeeze = nn.Conv2d(channels, 48, 1)
        self.refine = nn.Sequential(nn.ReLU(), nn.Conv2d(48, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, out, 1))

    def forward(self, x):
        return self.refine(F.interpolate(self.squeeze(x), size=(SIZE, SIZE), mode="bilinear", align_corners=False))


class Scene(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), Bottleneck(64), Bottleneck(64),
                                     nn.Conv2d(64, 160, 3, 2, 1), nn.ReLU(), Bottleneck(160), Bottleneck(160))
        self.heads = nn.ModuleDict({"labels": Head(160, LABELS), "depth": Head(160, 1), "normals": Head(160, 3)})
        self.log_variance = nn.ParameterDict({name: nn.Parameter(torch.zeros(())) for name in self.heads})

    def forward(self, x):
        features = self.encoder(x)
        return {name: head(features) for name, head in self.heads.items()}


def losses_of(model, outputs, truth):
    raw = {"labels": F.cross_entropy(outputs["labels"], truth["labels"]),
           "depth": F.l1_loss(outputs["depth"], truth["depth"]),
           "normals": 1 - F.cosine_similarity(outputs["normals"], truth["normals"], dim=1).mean()}
    return {name: loss * torch.exp(-model.log_variance[name]) + model.log_variance[name] for name, loss in raw.items()}


def rooms(steps):
    for _ in range(steps):
        yield torch.zeros(BATCH, 3, SIZE, SIZE), {"labels": torch.zeros(BATCH, SIZE, SIZE, dtype=torch.long),
                                                  "depth": torch.zeros(BATCH, 1, SIZE, SIZE), "normals": torch.ones(BATCH, 3, SIZE, SIZE)}


def main():
    model = Scene().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step, (image, truth) in enumerate(rooms(5)):
        outputs = model(image.cuda())
        losses = losses_of(model, outputs, {k: v.cuda() for k, v in truth.items()})
        optimizer.zero_grad()
        if FIXED:
            sum(losses.values()).backward()
        else:
            for loss in losses.values():
                loss.backward(retain_graph=True)
        optimizer.step()
        print(step, {name: round(loss.item(), 3) for name, loss in losses.items()})


main()
