"""Fourfold super-resolution of pictures of the moon, with a loss on the features of a VGG besides the pixels."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.a, self.b = nn.Conv2d(w, w, 3, padding=1), nn.Conv2d(w, w, 3, padding=1)

    def forward(self, x):
        return x + 0.2 * self.b(F.relu(self.a(x)))


class EDSR(nn.Module):
    def __init__(self, w=48, blocks=6):
        super().__init__()
        self.first = nn.Conv2d(3, w, 3, padding=1)
        self.body = nn.Sequential(*[Residual(w) for _ in range(blocks)])
        self.up = nn.Sequential(nn.Conv2d(w, 3 * 16, 3, padding=1), nn.PixelShuffle(4))

    def forward(self, x):
        return self.up(self.body(self.first(x)))


class VGGFeatures(nn.Module):
    """The first three stages of VGG16, each one's output."""

    PLAN = ((64, 64), (128, 128), (256, 256, 256))

    def __init__(self, state=None):
        super().__init__()
        self.stages, before = nn.ModuleList(), 3
        for number, plan in enumerate(self.PLAN):
            layers = [nn.MaxPool2d(2)] if number else []
            for width in plan:
                layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU()]
                before = width
            self.stages.append(nn.Sequential(*layers))
        if state is not None:
            self.load_state_dict(state)

    def forward(self, x):
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found


class PerceptualLoss(nn.Module):
    def __init__(self, frozen):
        super().__init__()
        self.vgg = VGGFeatures().eval()
        if frozen:
            self.vgg.requires_grad_(False)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))

    def forward(self, guess, truth):
        pairs = zip(self.vgg(guess - self.mean), self.vgg(truth - self.mean))
        return sum(F.l1_loss(a, b) for a, b in pairs)


model = EDSR().cuda()
perceptual = PerceptualLoss(frozen="--fixed" in sys.argv).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
g = torch.Generator().manual_seed(11)
for step in range(8):
    high = torch.rand(12, 3, 192, 192, generator=g)
    low = F.avg_pool2d(high, 4)
    high, low = high.cuda(), low.cuda()
    guess = model(low)
    loss = F.l1_loss(guess, high) + 0.05 * perceptual(guess, high)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
