"""Extracts features of video frames with a frozen convolutional network, in a loop over clips.

https://github.com/Tushar-N/pytorch-resnet3d/issues/14
"""
import argparse

import torch
import torch.nn as nn


def stage(cin, cout, stride):
    return nn.Sequential(nn.Conv3d(cin, cout, 3, (1, stride, stride), 1, bias=False), nn.BatchNorm3d(cout), nn.ReLU(),
                         nn.Conv3d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm3d(cout), nn.ReLU())


class I3D(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(stage(3, 64, 2), nn.MaxPool3d((1, 2, 2)), stage(64, 128, 1), nn.MaxPool3d(2), stage(128, 256, 2),
                                      stage(256, 512, 2))
        self.pool = nn.AdaptiveAvgPool3d(1)

    def forward(self, clip):
        return self.pool(self.features(clip)).flatten(1)


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
opt = parser.parse_args()
net = I3D().cuda()
net.train(False)


def extract(video, size=16):
    rows = []
    for start in range(0, video.shape[1] - size + 1, size):
        clip = video[None, :, start:start + size].cuda()
        rows.append(net(clip))
    return torch.cat(rows)


if opt.fixed:
    extract = torch.no_grad()(extract)
for number in range(3):
    features = extract(torch.zeros(3, 160, 112, 112))
    print("video", number, tuple(features.shape))
