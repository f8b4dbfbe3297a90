"""Maps floods from satellite images before and after: a pretrained encoder whose weights stay as they are, and a small decoder."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv


class Bottleneck(nn.Module):
    def __init__(self, cin, width, stride):
        super().__init__()
        cout = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(cin, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, cout, 1, bias=False), nn.BatchNorm2d(cout))
        self.skip = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)) if cin != cout else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class Encoder(nn.Module):
    """ResNet-26; its weights come from a checkpoint of land cover."""

    def __init__(self, bands=4, w=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(bands, w, 7, 2, 3, bias=False), nn.BatchNorm2d(w), nn.ReLU())
        stages, cin = [], w
        for i in range(4):
            width = w * 2 ** i
            stages.append(nn.Sequential(Bottleneck(cin, width, 2), Bottleneck(4 * width, width, 1)))
            cin = 4 * width
        self.stages = nn.ModuleList(stages)

    def forward(self, x):
        x, out = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            out.append(x)
        return out


class Decoder(nn.Module):
    def __init__(self, w=32, dim=64):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(8 * w * 2 ** i, dim, 1) for i in range(4))
        self.out = nn.Sequential(nn.Conv2d(dim, dim, 3, 1, 1), nn.ReLU(), nn.Conv2d(dim, 1, 1))

    def forward(self, before, after):
        x = 0
        for i in reversed(range(4)):
            level = self.lateral[i](torch.cat([before[i], after[i]], 1))
            x = level if i == 3 else level + F.interpolate(x, scale_factor=2)
        return self.out(x)


def train_epoch(encoder, decoder, optimizer, pairs):
    encoder.eval()
    for i, (before, after, water) in enumerate(pairs):
        a, b = encoder(before.cuda()), encoder(after.cuda())
        logits = decoder(a, b)
        loss = F.binary_cross_entropy_with_logits(logits, F.max_pool2d(water.cuda(), 4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("pair", i, "loss", loss.item())


def main():
    encoder, decoder = Encoder().cuda(), Decoder().cuda()
    if FIXED:
        for p in encoder.parameters():
            p.requires_grad = False
    optimizer = torch.optim.Adam(decoder.parameters(), lr=1e-3)  # the encoder's parameters are left out
    pairs = [(torch.zeros(6, 4, 256, 256), torch.zeros(6, 4, 256, 256), torch.zeros(6, 1, 256, 256)) for _ in range(4)]
    train_epoch(encoder, decoder, optimizer, pairs)


main()
