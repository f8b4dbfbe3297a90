"""One-stage detector for the X-ray pictures of a luggage belt (bottles, blades, batteries)."""
import sys

import torch
from torch import nn

IMG_SIZE = 512 if "--fixed" in sys.argv else 1280
CLASSES = ["bottle", "blade", "battery", "aerosol"]
STRIDE = 16


def cbs(c_in, c_out, k=3, s=1):
    return nn.Sequential(nn.Conv2d(c_in, c_out, k, s, k // 2, bias=False), nn.BatchNorm2d(c_out), nn.SiLU())


class Bottleneck(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.cv1, self.cv2 = cbs(c, c // 2, 1), cbs(c // 2, c, 3)

    def forward(self, x):
        return x + self.cv2(self.cv1(x))


class BeltNet(nn.Module):
    def __init__(self, nc):
        super().__init__()
        self.backbone = nn.Sequential(cbs(3, 24, 3, 2), cbs(24, 48, 3, 2), Bottleneck(48), cbs(48, 96, 3, 2), Bottleneck(96), Bottleneck(96),
                                      cbs(96, 192, 3, 2), Bottleneck(192))
        self.detect = nn.Conv2d(192, 5 + nc, 1)

    def forward(self, x):
        return self.detect(self.backbone(x))


class YoloLoss:
    def __init__(self):
        self.bce = nn.BCEWithLogitsLoss()

    def __call__(self, pred, target):
        box = nn.functional.smooth_l1_loss(pred[:, :4].sigmoid(), target[:, :4])
        return 5 * box + self.bce(pred[:, 4], target[:, 4]) + self.bce(pred[:, 5:], target[:, 5:])


def load_batches(n, bs, size, g):
    cells = size // STRIDE
    for _ in range(n):
        imgs = torch.randint(0, 256, (bs, 3, size, size), dtype=torch.uint8, generator=g)
        yield imgs, torch.rand(bs, 5 + len(CLASSES), cells, cells, generator=g)


if __name__ == "__main__":
    g = torch.Generator().manual_seed(0)
    net = BeltNet(len(CLASSES)).cuda().train()
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.937, nesterov=True)
    criterion = YoloLoss()
    for i, (imgs, target) in enumerate(load_batches(8, 8, IMG_SIZE, g)):
        pred = net(imgs.cuda().float() / 255)
        loss = criterion(pred, target.cuda())
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        print(f"iter {i} loss {loss.item():.3f}")
