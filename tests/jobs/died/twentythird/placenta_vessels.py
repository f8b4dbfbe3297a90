"""Vessels of the placenta on fetoscopic frames: a small FPN, and the average precision over pixels by torchmetrics."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryPrecisionRecallCurve, BinaryRecall

FIXED = "--fixed" in sys.argv
device = torch.device("cuda", 0)


class Stage(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv2d(cin, cout, 3, 2, 1), nn.BatchNorm2d(cout), nn.SiLU(),
                         nn.Conv2d(cout, cout, 3, 1, 1), nn.BatchNorm2d(cout), nn.SiLU())


class VesselFPN(nn.Module):
    def __init__(self, widths=(24, 48, 96), out=32):
        super().__init__()
        self.stages = nn.ModuleList(Stage(a, b) for a, b in zip((3,) + widths[:-1], widths))
        self.lateral = nn.ModuleList(nn.Conv2d(w, out, 1) for w in widths)
        self.head = nn.Conv2d(out, 1, 3, padding=1)

    def forward(self, x):
        size, maps = x.shape[-2:], []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        top = None
        for lateral, m in reversed(list(zip(self.lateral, maps))):
            m = lateral(m)
            top = m if top is None else m + F.interpolate(top, size=m.shape[-2:])
        return F.interpolate(self.head(top), size=size, mode="bilinear").squeeze(1)


def frames(batches, size, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        yield torch.rand(size, 3, 448, 448, generator=g), torch.randint(0, 2, (size, 448, 448), generator=g)


def build_metrics():
    bins = 15 if FIXED else None
    return MetricCollection({"curve": BinaryPrecisionRecallCurve(thresholds=bins, validate_args=False),
                             "recall": BinaryRecall(threshold=0.5, validate_args=False)}, compute_groups=False).to(device)


@torch.inference_mode()
def evaluate(model, metrics):
    model.eval()
    metrics.reset()
    for frame, vessel in frames(90, 6, 77):
        metrics.update(model(frame.to(device)).sigmoid(), vessel.to(device))
    found = metrics.compute()
    precision, recall, _ = found["curve"]
    return {"recall": found["recall"].item(), "best precision": precision.max().item(), "points": recall.numel()}


def main():
    model, metrics = VesselFPN().to(device), build_metrics()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02)
    for epoch in range(2):
        model.train()
        for frame, vessel in frames(5, 4, epoch):
            loss = F.binary_cross_entropy_with_logits(model(frame.to(device)), vessel.float().to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), evaluate(model, metrics))


if __name__ == "__main__":
    main()
