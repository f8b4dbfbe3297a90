"""Super-resolution of satellite images with a perceptual loss. The loss net is not trained (the optimizer has the generator's parameters), but
neither frozen, and the features of the ground truth keep a graph as well."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

arguments = argparse.ArgumentParser()
arguments.add_argument("--fixed", action="store_true")
arguments = arguments.parse_args()


class PerceptualLoss(nn.Module):
    def __init__(self):
        super().__init__()
        plan, layers, c = (64, 64, 64, 64, 0, 128, 128, 128, 128, 0, 256, 256, 256, 256), [], 3
        for w in plan:
            layers += [nn.Conv2d(c, w, 3, 1, 1), nn.ReLU()] if w else [nn.MaxPool2d(2)]
            c = w or c
        self.net = nn.Sequential(*layers)
        if arguments.fixed:
            self.net.requires_grad_(False)

    def forward(self, sr, hr):
        return F.l1_loss(self.net(sr), self.net(hr))


class Upscaler(nn.Module):
    def __init__(self, w=48, blocks=6, scale=4):
        super().__init__()
        self.first = nn.Conv2d(3, w, 3, 1, 1)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(w, w, 3, 1, 1), nn.PReLU(), nn.Conv2d(w, w, 3, 1, 1)) for _ in range(blocks)])
        self.last = nn.Sequential(nn.Conv2d(w, 3 * scale ** 2, 3, 1, 1), nn.PixelShuffle(scale))

    def forward(self, x):
        x = self.first(x)
        for b in self.blocks:
            x = x + b(x)
        return self.last(x)


G, perceptual = Upscaler().cuda(), PerceptualLoss().cuda()
optimizer = torch.optim.Adam(G.parameters(), lr=1e-4)
for it in range(6):
    hr = torch.rand(8, 3, 256, 256).cuda()
    lr = F.interpolate(hr, scale_factor=0.25, mode="area")
    sr = G(lr)
    loss = F.l1_loss(sr, hr) + 0.1 * perceptual(sr, hr)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(it, loss.item())
