"""Builds the search index of a shop: embeds product pictures with a ResNet-like net and collects the vectors.
The model is in eval mode; gradients were never thought of."""
import argparse

import torch
import torch.nn as nn


class Bottleneck(nn.Module):
    def __init__(self, i, width, stride=1):
        super().__init__()
        o = 4 * width
        self.body = nn.Sequential(nn.Conv2d(i, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, o, 1, bias=False), nn.BatchNorm2d(o))
        self.skip = nn.Conv2d(i, o, 1, stride, bias=False) if i != o or stride > 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def resnet():
    layers, c = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for width, n, stride in (64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2):
        for k in range(n):
            layers.append(Bottleneck(c, width, stride if k == 0 else 1))
            c = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 512))


def embed(model, pictures, detached):
    vectors = model(pictures)
    vectors = nn.functional.normalize(vectors, dim=-1)
    return vectors.detach().cpu() if detached else vectors


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--fixed", action="store_true")
    ap.add_argument("--batches", type=int, default=10)
    args = ap.parse_args()
    if args.fixed:
        torch.set_grad_enabled(False)
    model = resnet().cuda().eval()
    index = []
    for n in range(args.batches):
        index.append(embed(model, torch.zeros(24, 3, 224, 224).cuda(), args.fixed))
    print(torch.cat(index).shape)


main()
