"""Cover of lichens on boulders: a fully convolutional net gives each pixel of a field photograph one of seven species."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--photos", type=int, default=8)
args = parser.parse_args()


class Residual(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.short = nn.Conv2d(c_in, c_out, 1, stride) if stride != 1 or c_in != c_out else nn.Identity()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.short(x), inplace=True)


class LichenFCN(nn.Module):
    def __init__(self, species=7):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True))
        self.stages = nn.ModuleList([Residual(32, 48, 1), Residual(48, 96, 2), Residual(96, 192, 2), Residual(192, 256, 2)])
        self.heads = nn.ModuleList([nn.Conv2d(c, species, 1) for c in (48, 96, 192, 256)])

    def forward(self, photo):
        size = photo.shape[-2:]
        x, score = self.stem(photo), 0
        for stage, head in zip(self.stages, self.heads):
            x = stage(x)
            score = score + F.interpolate(head(x), size=size, mode="bilinear", align_corners=False)
        return score


def load(index, shrink):
    photo, mask = torch.zeros(3, 1536, 2304), torch.zeros(1536, 2304, dtype=torch.long)
    if shrink > 1:
        photo = F.avg_pool2d(photo[None], shrink)[0]
        mask = mask[::shrink, ::shrink]
    return photo, mask


SHRINK = 3 if args.fixed else 1
net = LichenFCN().to("cuda")
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, nesterov=True)
for epoch in range(2):
    for i in range(0, args.photos, 2):
        pairs = [load(i + j, SHRINK) for j in range(2)]
        photo = torch.stack([p for p, _ in pairs]).to("cuda")
        mask = torch.stack([m for _, m in pairs]).to("cuda")
        loss = F.cross_entropy(net(photo), mask, ignore_index=255)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
