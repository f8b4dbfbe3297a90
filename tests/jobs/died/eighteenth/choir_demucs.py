"""Takes choir recordings apart into four voices (time-domain U-Net with an LSTM in the middle)."""
import argparse

import torch
from torch import nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--batch", type=int, default=6)
parser.add_argument("--samples", type=int, default=32768)
args = parser.parse_args()
VOICES = 4


class Demucs(nn.Module):
    def __init__(self, width=32, depth=4):
        super().__init__()
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        before = 1
        for level in range(depth):
            c = width << level
            self.down.append(nn.Sequential(nn.Conv1d(before, c, 8, 4, 2), nn.ReLU(), nn.Conv1d(c, 2 * c, 1), nn.GLU(1)))
            last = VOICES if level == 0 else width << (level - 1)
            self.up.insert(0, nn.Sequential(nn.Conv1d(c, 2 * c, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(c, last, 8, 4, 2)))
            before = c
        self.lstm = nn.LSTM(before, before // 2, 2, bidirectional=True, batch_first=True)

    def forward(self, mix):
        x, skips = mix.unsqueeze(1), []
        for layer in self.down:
            x = layer(x)
            skips.append(x)
        x = self.lstm(x.transpose(1, 2))[0].transpose(1, 2)
        for layer in self.up:
            x = layer(x + skips.pop())
        return x


def si_sdr(estimate, reference):
    scale = (estimate * reference).sum(-1, keepdim=True) / reference.pow(2).sum(-1, keepdim=True).clamp(min=1e-8)
    target = scale * reference
    return 10 * torch.log10(target.pow(2).sum(-1) / (estimate - target).pow(2).sum(-1).clamp(min=1e-8)).mean()


class Monitor:
    """Separates the same concert excerpt after every step, for the curve that we show in the weekly meeting."""

    def __init__(self, stems):
        self.stems, self.curve = stems.cuda(), []

    def update(self, model):
        quality = si_sdr(model(self.stems.sum(1)), self.stems)
        self.curve.append(quality.item() if args.fixed else quality)

    def summary(self):
        values = [float(v) for v in self.curve]
        return f"SI-SDR now {values[-1]:.2f} dB, best {max(values):.2f} dB"


def main():
    model = Demucs().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    monitor = Monitor(torch.rand(6, VOICES, args.samples) - 0.5)
    for step in range(args.steps):
        stems = (torch.rand(args.batch, VOICES, args.samples) - 0.5).cuda()
        loss = F.l1_loss(model(stems.sum(1)), stems)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.update(model)
        if step % 10 == 9:
            print("step", step, "l1", loss.item(), monitor.summary())


main()
