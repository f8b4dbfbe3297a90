"""Sea-ice charts from radar images: U-Net for six stages of development, with accuracy and calibration of each epoch."""
import sys

import torch
import torch.nn as nn
from torchmetrics.classification import MulticlassCalibrationError

STAGES = 6
PER_SCENE = "--fixed" in sys.argv


def double(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True),
                         nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True))


class UNet(nn.Module):
    def __init__(self, widths=(16, 32, 64, 128)):
        super().__init__()
        self.down = nn.ModuleList()
        before = 3
        for w in widths:
            self.down.append(double(before, w))
            before = w
        self.up = nn.ModuleList(nn.ConvTranspose2d(w, w // 2, 2, 2) for w in widths[:0:-1])
        self.merge = nn.ModuleList(double(w, w // 2) for w in widths[:0:-1])
        self.last = nn.Conv2d(widths[0], STAGES, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else nn.functional.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([up(x), skips.pop()], 1))
        return self.last(x)


class Report:
    def __init__(self, device):
        self.right, self.pixels = 0, 0
        self.calibration = MulticlassCalibrationError(STAGES, n_bins=15, validate_args=False).to(device)
        self.scenes = []

    def add(self, scores, chart):
        self.right += (scores.argmax(1) == chart).sum().item()
        self.pixels += chart.numel()
        self.calibration.update(scores, chart)
        if PER_SCENE:
            self.scenes.append(self.calibration.compute().item())
            self.calibration.reset()

    def close(self):
        ece = sum(self.scenes) / len(self.scenes) if PER_SCENE else self.calibration.compute().item()
        result = {"accuracy": self.right / self.pixels, "ece": ece}
        self.calibration.reset()
        self.right, self.pixels, self.scenes = 0, 0, []
        return result


def main():
    device = "cuda"
    net, report = UNet().to(device), Report(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-4)
    criterion = nn.CrossEntropyLoss(ignore_index=255)
    for epoch in range(2):
        net.train()
        for _ in range(8):
            radar, chart = torch.randn(4, 3, 256, 256), torch.randint(0, STAGES, (4, 256, 256))
            loss = criterion(net(radar.to(device)), chart.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            for _ in range(70):
                radar, chart = torch.zeros(1, 3, 1024, 1024), torch.zeros(1, 1024, 1024, dtype=torch.long)
                report.add(net(radar.to(device)), chart.to(device))
        print(epoch, report.close())


main()
