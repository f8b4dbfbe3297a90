"""Land cover from aerial tiles: 24 classes a pixel, trained with cross entropy plus a Tversky loss."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--classes", type=int, default=24)
parser.add_argument("--tile", type=int, default=256)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--steps", type=int, default=8)
args = parser.parse_args()


class TverskyLoss(nn.Module):
    def __init__(self, classes, alpha=0.3, beta=0.7, smooth=1.0):
        super().__init__()
        self.classes, self.alpha, self.beta, self.smooth = classes, alpha, beta, smooth

    def forward(self, logits, labels):
        p = logits.softmax(1)
        if args.fixed:
            rows = (labels + self.classes * torch.arange(len(labels), device=labels.device)[:, None, None]).flatten()
            own = p.gather(1, labels[:, None]).flatten()
            inter = own.new_zeros(len(labels) * self.classes).index_add(0, rows, own).view(-1, self.classes)
            area = own.new_zeros(len(labels) * self.classes).index_add(0, rows, torch.ones_like(own)).view(-1, self.classes)
            extra, missed = p.sum((2, 3)) - inter, area - inter
        else:
            target = F.one_hot(labels, self.classes).permute(0, 3, 1, 2)
            inter = (p * target).sum((2, 3))
            extra, missed = (p * (1 - target)).sum((2, 3)), ((1 - p) * target).sum((2, 3))
        return 1 - ((inter + self.smooth) / (inter + self.alpha * extra + self.beta * missed + self.smooth)).mean()


class LightSeg(nn.Module):
    """Predicts at a quarter of the resolution and enlarges the logits."""

    def __init__(self, classes):
        super().__init__()
        widths = (3, 32, 64, 64, 96)
        strides = (2, 2, 1, 1)
        self.body = nn.Sequential(*(nn.Sequential(nn.Conv2d(a, b, 3, s, 1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
                                    for a, b, s in zip(widths, widths[1:], strides)))
        self.head = nn.Conv2d(widths[-1], classes, 1)

    def forward(self, x):
        low = self.head(self.body(x))
        return F.interpolate(low, size=x.shape[-2:], mode="bilinear", align_corners=False)


def tiles():
    for _ in range(args.steps):
        yield torch.zeros(args.batch, 3, args.tile, args.tile), torch.zeros(args.batch, args.tile, args.tile, dtype=torch.long)


model = LightSeg(args.classes).cuda()
tversky = TverskyLoss(args.classes)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step, (image, labels) in enumerate(tiles()):
    labels = labels.cuda()
    logits = model(image.cuda())
    loss = F.cross_entropy(logits, labels) + tversky(logits, labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
