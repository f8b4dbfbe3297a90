import sys
from torch import nn
import torch
import torch.nn.functional as F

# dashcam pothole segmentation, feature pyramid on a small residual trunk
TRAIN_SIZE = (448, 448) if "--fixed" in sys.argv else (1088, 1920)
PER_STEP = 3
DEV = torch.device("cuda:0")


def conv_bn(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(True))


class Residual(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.a, self.b = conv_bn(i, o, 2), conv_bn(o, o)
        self.short = nn.Conv2d(i, o, 1, 2)

    def forward(self, x):
        return F.relu(self.b(self.a(x)) + self.short(x))


class PotholeNet(nn.Module):
    widths = (24, 48, 96, 192, 256)

    def __init__(self, pyramid=64):
        super().__init__()
        self.stem = conv_bn(3, self.widths[0], 2)
        self.stages = nn.ModuleList(Residual(i, o) for i, o in zip(self.widths, self.widths[1:]))
        self.lateral = nn.ModuleList(nn.Conv2d(w, pyramid, 1) for w in self.widths[1:])
        self.smooth = nn.ModuleList(conv_bn(pyramid, pyramid) for _ in self.widths[1:])
        self.head = nn.Conv2d(pyramid, 2, 1)

    def forward(self, img):
        x, feats = self.stem(img), []
        for stage in self.stages:
            x = stage(x)
            feats.append(x)
        top = None
        for f, lat, smooth in zip(feats[::-1], list(self.lateral)[::-1], list(self.smooth)[::-1]):
            p = lat(f)
            if top is not None:
                p = p + F.interpolate(top, size=p.shape[-2:], mode="nearest")
            top = smooth(p)
        return F.interpolate(self.head(top), size=img.shape[-2:], mode="bilinear", align_corners=False)


def load_frames(n):
    # frame grabber delivers 8-bit; resize/crop has been done by then
    h, w = TRAIN_SIZE
    return torch.zeros(n, 3, h, w, dtype=torch.uint8), torch.zeros(n, h, w, dtype=torch.long)


def iou(pred, mask):
    pred, mask = pred == 1, mask == 1
    return (pred & mask).sum().float() / (pred | mask).sum().clamp(min=1)


if __name__ == "__main__":
    net = PotholeNet().to(DEV)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.PolynomialLR(opt, total_iters=10)
    weight = torch.tensor([0.2, 0.8], device=DEV)
    for it in range(10):
        frames, masks = load_frames(PER_STEP)
        frames, masks = frames.to(DEV).float().div_(255), masks.to(DEV)
        logits = net(frames)
        loss = F.cross_entropy(logits, masks, weight=weight)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        if it % 5 == 0:
            with torch.no_grad():
                print(f"iter {it} loss {loss.item():.3f} iou {iou(logits.argmax(1), masks).item():.3f}")
