"""Optimizes one image for the style of another with a VGG-like net. Every iteration's features are kept in a list for a figure at the end.
https://discuss.pytorch.org/t/gpu-memory-gets-filled/8190"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--size", type=int, default=512)
parser.add_argument("--iterations", type=int, default=12)
args = parser.parse_args()

cfg = [64, 64, "P", 128, 128, "P", 256, 256, 256, "P", 512, 512, 512]


def vgg():
    layers, c = [], 3
    for v in cfg:
        if v == "P":
            layers.append(nn.AvgPool2d(2))
        else:
            layers += [nn.Conv2d(c, v, 3, padding=1), nn.ReLU()]
            c = v
    return nn.Sequential(*layers)


def features(net, x):
    out = []
    for layer in net:
        x = layer(x)
        if isinstance(layer, nn.ReLU):
            out.append(x)
    return out[1::3]


def gram(f):
    b, c, h, w = f.shape
    f = f.view(b, c, h * w)
    return f @ f.transpose(1, 2) / (c * h * w)


net = vgg().cuda().eval().requires_grad_(False)
content = torch.rand(1, 3, args.size, args.size).cuda()
style = torch.rand(1, 3, args.size, args.size).cuda()
with torch.no_grad():
    target = features(net, content)[-1]
    grams = [gram(f) for f in features(net, style)]
image = content.clone().requires_grad_(True)
opt = torch.optim.Adam([image], lr=0.02)

evolution = []
for i in range(args.iterations):
    opt.zero_grad()
    feats = features(net, image)
    loss = F.mse_loss(feats[-1], target)
    for f, g in zip(feats, grams):
        loss = loss + 1e4 * F.mse_loss(gram(f), g)
    loss.backward()
    opt.step()
    evolution.append([f.mean(1).detach().cpu() for f in feats] if args.fixed else feats)
print("done", len(evolution))
