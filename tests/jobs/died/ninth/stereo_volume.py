"""Depth from two cameras of a farm robot: features of both images, a cost volume over all disparities, and 3D convolutions as in PSMNet."""
import sys

import torch
import torch.nn.functional as F
from torch import nn


class Config:
    height, width = 256, 512
    channels = 16
    batch = 2
    # of a pixel of the image; the nearest plants are at a disparity of 60
    disparities = 64 if "--fixed" in sys.argv else 192


class Features(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, c, 3, 2, 1), nn.BatchNorm2d(c), nn.ReLU(),
            nn.Conv2d(c, 2 * c, 3, 2, 1), nn.BatchNorm2d(2 * c), nn.ReLU(),
            nn.Conv2d(2 * c, 2 * c, 3, 1, 1), nn.BatchNorm2d(2 * c), nn.ReLU(),
            nn.Conv2d(2 * c, c, 1))

    def forward(self, x):
        return self.layers(x)


def cost_volume(left, right, disparities):
    b, c, h, w = left.shape
    volume = left.new_zeros(b, 2 * c, disparities, h, w)
    for d in range(disparities):
        volume[:, :c, d, :, d:] = left[..., d:]
        volume[:, c:, d, :, d:] = right[..., :w - d]
    return volume


class Stereo(nn.Module):
    def __init__(self, config):
        super().__init__()
        c = config.channels
        self.planes = config.disparities // 4
        self.features = Features(c)
        self.before = nn.Sequential(nn.Conv3d(2 * c, c, 3, 1, 1), nn.BatchNorm3d(c), nn.ReLU())
        self.residual = nn.ModuleList(nn.Sequential(nn.Conv3d(c, c, 3, 1, 1), nn.BatchNorm3d(c), nn.ReLU(), nn.Conv3d(c, c, 3, 1, 1))
                                      for _ in range(3))
        self.after = nn.Conv3d(c, 1, 3, 1, 1)

    def forward(self, left, right):
        x = self.before(cost_volume(self.features(left), self.features(right), self.planes))
        for layer in self.residual:
            x = F.relu(x + layer(x))
        cost = F.interpolate(self.after(x), scale_factor=4, mode="trilinear").squeeze(1)
        probability = F.softmax(-cost, dim=1)
        planes = torch.arange(cost.shape[1], device=cost.device, dtype=cost.dtype)
        return torch.einsum("bdhw,d->bhw", probability, planes)


def main(config):
    model = Stereo(config).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(4):
        left, right = torch.rand(2, config.batch, 3, config.height, config.width).cuda()
        truth = 40 * torch.rand(config.batch, config.height, config.width).cuda()
        loss = F.smooth_l1_loss(model(left, right), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "end-point error", loss.item())


main(Config)
