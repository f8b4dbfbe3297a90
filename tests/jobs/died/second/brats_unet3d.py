"""Brain tumours in four MRI channels with a 3D U-Net; the patch is as large as the paper's.

After https://github.com/YaoleiQi/DSCNet/issues/32 and https://github.com/ljwztc/CLIP-Driven-Universal-Model/issues/34
"""
import argparse

import torch
import torch.nn as nn


def double(cin, cout):
    return nn.Sequential(
        nn.Conv3d(cin, cout, 3, padding=1), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01),
        nn.Conv3d(cout, cout, 3, padding=1), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01))


class UNet3D(nn.Module):
    def __init__(self, channels=4, classes=4, widths=(24, 48, 96, 192, 256)):
        super().__init__()
        self.enc = nn.ModuleList(double(channels if i == 0 else widths[i - 1], w) for i, w in enumerate(widths))
        self.pool = nn.MaxPool3d(2)
        self.ups = nn.ModuleList(nn.ConvTranspose3d(widths[i], widths[i - 1], 2, 2) for i in range(len(widths) - 1, 0, -1))
        self.dec = nn.ModuleList(double(2 * widths[i - 1], widths[i - 1]) for i in range(len(widths) - 1, 0, -1))
        self.out = nn.Conv3d(widths[0], classes, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.enc):
            x = block(x if i == 0 else self.pool(x))
            skips.append(x)
        for up, block, skip in zip(self.ups, self.dec, skips[-2::-1]):
            x = block(torch.cat([up(x), skip], 1))
        return self.out(x)


def dice_loss(logits, target):
    p = logits.softmax(1)[:, 1:].flatten(2)
    t = torch.stack([target == c for c in range(1, logits.size(1))], 1).flatten(2).float()
    return 1 - (2 * (p * t).sum(-1) + 1e-5).div(p.sum(-1) + t.sum(-1) + 1e-5).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--patch", type=int, default=128)
    parser.add_argument("--batch", type=int, default=2)
    args = parser.parse_args()
    if args.fixed:
        args.patch = 96
    net = UNet3D().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.99, nesterov=True)
    for step in range(5):
        shape = (args.batch,) + (args.patch,) * 3
        scan = torch.zeros(args.batch, 4, *shape[1:]).cuda()
        label = torch.zeros(shape, dtype=torch.uint8).cuda()
        optimizer.zero_grad(set_to_none=True)
        logits = net(scan)
        loss = dice_loss(logits, label) + nn.functional.cross_entropy(logits, label.long())
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
