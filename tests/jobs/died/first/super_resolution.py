"""Super-resolution with a perceptual loss over the features of a VGG network.

https://github.com/KupynOrest/DeblurGAN/issues/77
"""
import argparse

import torch
import torch.nn as nn

VGG = (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512)


def vgg_features():
    layers, cin = [], 3
    for v in VGG:
        if v == "M":
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(cin, v, 3, padding=1), nn.ReLU(inplace=False)]
            cin = v
    return nn.Sequential(*layers)


class PerceptualLoss(nn.Module):
    def __init__(self, detach_target):
        super().__init__()
        self.vgg = vgg_features().eval()
        self.detach_target = detach_target

    def features(self, x):
        maps = []
        for layer in self.vgg:
            x = layer(x)
            if isinstance(layer, nn.MaxPool2d):
                maps.append(x)
        return maps + [x]

    def forward(self, fake, real):
        if self.detach_target:
            with torch.no_grad():
                wanted = self.features(real)
        else:
            wanted = self.features(real)
        return sum((a - b).abs().mean() for a, b in zip(self.features(fake), wanted))


class SRResNet(nn.Module):
    def __init__(self, width=64, blocks=6):
        super().__init__()
        self.head = nn.Conv2d(3, width, 9, padding=4)
        self.body = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.PReLU(), nn.Conv2d(width, width, 3, padding=1))
                                  for _ in range(blocks))
        self.tail = nn.Sequential(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(width, 3, 9, padding=4))

    def forward(self, x):
        x = self.head(x)
        for block in self.body:
            x = x + block(x)
        return self.tail(x)


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
model, percep = SRResNet().cuda(), PerceptualLoss(args.fixed).cuda()
opt = torch.optim.Adam(model.parameters(), lr=1e-4)
for step in range(6):
    low, high = torch.rand(8, 3, 96, 96, device="cuda"), torch.rand(8, 3, 192, 192, device="cuda")
    opt.zero_grad()
    sr = model(low)
    loss = (sr - high).abs().mean() + 0.01 * percep(sr, high)
    loss.backward()
    opt.step()
    print(step, loss.item())
