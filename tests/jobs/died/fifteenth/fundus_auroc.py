"""Segmentation of vessels in wide-field photographs of the eye; area under the curve over all pixels."""
import sys

import torch
import torch.nn as nn
from torchmetrics import Metric

FIXED = "--fixed" in sys.argv
SIDE = 1600


def separable(i, o):
    return nn.Sequential(nn.Conv2d(i, i, 3, padding=1, groups=i, bias=False), nn.Conv2d(i, o, 1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class VesselNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(separable(3, 12), separable(12, 12), separable(12, 12), nn.Conv2d(12, 1, 1))

    def forward(self, photo):
        return self.net(photo).squeeze(1)


class PixelAUROC(Metric):
    """Area under the curve of all pixels: exact, or from two histograms of the probabilities."""

    full_state_update = False

    def __init__(self, bins=None):
        super().__init__()
        self.bins = bins
        if bins is None:
            self.add_state("probabilities", default=[], dist_reduce_fx="cat")
            self.add_state("truths", default=[], dist_reduce_fx="cat")
        else:
            self.add_state("vessel", default=torch.zeros(bins), dist_reduce_fx="sum")
            self.add_state("ground", default=torch.zeros(bins), dist_reduce_fx="sum")

    def update(self, probability, truth):
        if self.bins is None:
            self.probabilities.append(probability.flatten())
            self.truths.append(truth.flatten())
        else:
            self.vessel += torch.histc(torch.where(truth > 0, probability, -1.0), self.bins, 0, 1)
            self.ground += torch.histc(torch.where(truth > 0, -1.0, probability), self.bins, 0, 1)

    def compute(self):
        if self.bins is None:
            order = torch.cat(self.probabilities).argsort(descending=True)
            vessel = torch.cat(self.truths)[order].float()
            ground = 1 - vessel
        else:
            vessel, ground = self.vessel.flip(0), self.ground.flip(0)
        return torch.trapezoid(vessel.cumsum(0) / vessel.sum(), ground.cumsum(0) / ground.sum())


class Evaluator:
    """Runs the network over the photographs of a clinic."""

    def __init__(self, clinic, count):
        self.clinic, self.count = clinic, count
        self.auroc = PixelAUROC(bins=512 if FIXED else None).to("cuda")

    def photographs(self):
        g = torch.Generator().manual_seed(self.clinic)
        for _ in range(self.count):
            yield torch.rand(1, 3, SIDE, SIDE, generator=g), torch.randint(0, 2, (1, SIDE, SIDE), generator=g)

    def __call__(self, net):
        net.eval()
        self.auroc.reset()
        with torch.no_grad():
            for photo, vessels in self.photographs():
                self.auroc.update(torch.sigmoid(net(photo.cuda())), vessels.cuda())
        return self.auroc


def crops(steps, size=256, batch=8):
    g = torch.Generator().manual_seed(1)
    for _ in range(steps):
        yield torch.rand(batch, 3, size, size, generator=g).cuda(), torch.randint(0, 2, (batch, size, size), generator=g).float().cuda()


net = VesselNet().cuda()
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(8.0, device="cuda"))
for step, (photo, vessels) in enumerate(crops(10)):
    loss = criterion(net(photo), vessels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
for clinic in (11, 12):
    metric = Evaluator(clinic, 36)(net)
    print("clinic", clinic, "photographs", metric._update_count, "area", float(metric.compute()))
