"""Oil slicks on radar scenes. U-Net on patches, checked on whole scenes: overlap, and whether the scores can be read as probabilities."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryCalibrationError, BinaryJaccardIndex


def double(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.InstanceNorm2d(o), nn.LeakyReLU(0.1, True),
                         nn.Conv2d(o, o, 3, padding=1), nn.InstanceNorm2d(o), nn.LeakyReLU(0.1, True))


class UNet(nn.Module):
    def __init__(self, bands=2, c=12):
        super().__init__()
        self.d1, self.d2, self.d3 = double(bands, c), double(c, 2 * c), double(2 * c, 4 * c)
        self.u2, self.u1 = double(6 * c, 2 * c), double(3 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        z = self.d3(F.max_pool2d(b, 2))
        z = self.u2(torch.cat([b, F.interpolate(z, scale_factor=2)], 1))
        z = self.u1(torch.cat([a, F.interpolate(z, scale_factor=2)], 1))
        return self.out(z).squeeze(1)


def scenes(n, batch, size):
    for _ in range(n):
        yield torch.zeros(batch, 2, size, size), torch.zeros(batch, size, size, dtype=torch.long)


def metrics():
    options = {"compute_on_cpu": True} if "--fixed" in sys.argv else {}
    return MetricCollection({"ece": BinaryCalibrationError(n_bins=15, validate_args=False, **options),
                             "iou": BinaryJaccardIndex(validate_args=False)}).to("cuda")


def evaluate(model, scores):
    model.eval()
    with torch.inference_mode():
        for x, y in scenes(50, 2, 1024):
            scores.update(torch.sigmoid(model(x.cuda())), y.cuda())
    model.train()


def train(model, optimizer, steps):
    for x, y in scenes(steps, 8, 256):
        logits, y = model(x.cuda()), y.cuda().float()
        p = torch.sigmoid(logits)
        dice = 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)
        loss = F.binary_cross_entropy_with_logits(logits, y) + dice
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    model = UNet().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 5e-4)
    scores = metrics()
    for epoch in range(2):
        loss = train(model, optimizer, 8)
        scores.reset()
        evaluate(model, scores)
        print(epoch, loss, {k: v.item() for k, v in scores.compute().items()})
